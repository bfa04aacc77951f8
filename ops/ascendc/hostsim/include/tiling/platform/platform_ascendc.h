// The device, as tiling asks for it.
#pragma once

#include "exe_graph/runtime/contexts.h"
#include "hostsim/runtime.h"

namespace platform_ascendc {

enum class CoreMemType { L0_A, L0_B, L0_C, L1, L2, UB, HBM };
enum class SocVersion { ASCEND910B, ASCEND910_93 };

class PlatformAscendC {
 public:
  explicit PlatformAscendC(fe::PlatFormInfos *info) : info_(info) {}

  uint32_t GetCoreNum() const { return info_->vector_cores; }
  uint32_t GetCoreNumAiv() const { return info_->vector_cores; }
  uint32_t GetCoreNumVector() const { return 0; }
  void GetCoreMemSize(const CoreMemType &type, uint64_t &bytes) const {
    bytes = type == CoreMemType::UB ? info_->ub_bytes : 0;
  }
  uint32_t GetLibApiWorkSpaceSize() const { return hostsim::kSystemWorkspace; }

 private:
  fe::PlatFormInfos *info_;
};

}  // namespace platform_ascendc
