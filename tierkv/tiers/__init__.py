"""Where records live: device, host, file."""

from tierkv.tiers.device_tier import DeviceTier
from tierkv.tiers.file_tier import FileTier
from tierkv.tiers.host_tier import HostTier

__all__ = ["DeviceTier", "FileTier", "HostTier"]
