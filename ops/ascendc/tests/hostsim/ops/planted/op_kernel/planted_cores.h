// Cases 200 to 299: several cores.
#pragma once

#include "planted.h"

// Core 1 uses what core 0 has stored.
__aicore__ inline void Handover(Bench &b) {
  b.Clear();
  if (GetBlockIdx() == 0) DataCopy(b.z, b.ub, 64);
  if (!b.bad) SyncAll<true>();
  if (GetBlockIdx() == 1) DataCopy(b.ub, b.z, 64);
}

__aicore__ inline void SameBytes(Bench &b) {
  b.Clear();
  DataCopyPad(b.y[b.bad ? 0 : GetBlockIdx()], b.ub, DataCopyExtParams(1, 4, 0, 0, 0));
}

__aicore__ inline void OverwriteWhatOthersRead(Bench &b) {
  DataCopyPad(b.ub, b.z[3], DataCopyExtParams(1, 4, 0, 0, 0), DataCopyPadExtParams<int32_t>());
  PipeBarrier<PIPE_ALL>();
  if (!b.bad) SyncAll<true>();
  if (GetBlockIdx() == 1) DataCopyPad(b.z[3], b.ub, DataCopyExtParams(1, 4, 0, 0, 0));
}

__aicore__ inline void MissingSync(Bench &b) {
  if (!b.bad || GetBlockIdx() == 0) SyncAll<true>();
}

__aicore__ inline void FalseSharing(Bench &b) {
  const uint64_t at = GetBlockIdx() * (b.bad ? 15 : 16);
  b.y.SetValue(at, 1);
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(b.y[at]);
}

__aicore__ inline void NeverCleaned(Bench &b) {
  if (GetBlockIdx() != 0) return;
  b.y.SetValue(0, 1);
  if (!b.bad) DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE>(b.y);
}

// Core 1 reads by scalar instructions what core 0 has stored by DMA.
__aicore__ inline void StaleRead(Bench &b) {
  b.Clear();
  const int32_t before = b.z.GetValue(0);
  SyncAll<true>();
  if (GetBlockIdx() == 0) DataCopy(b.z, b.ub, 64);
  SyncAll<true>();
  if (GetBlockIdx() == 0) return;
  if (!b.bad) DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(b.z);
  b.ub.SetValue(0, before + b.z.GetValue(0));
}

__aicore__ inline void CopyMeetsCache(Bench &b) {
  if (GetBlockIdx() == 0) b.z.SetValue(0, 1);
  if (!b.bad && GetBlockIdx() == 0) DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(b.z);
  SyncAll<true>();
  if (GetBlockIdx() == 1) DataCopy(b.ub, b.z, 64);
}

// Elements of one block of 32 bytes, by turns of the cores: no two copies write the same bytes.
__aicore__ inline void Neighbours(Bench &b) {
  b.Clear();
  for (int64_t i = GetBlockIdx(); i < 8; i += GetBlockNum()) {
    DataCopyPad(b.y[i], b.ub, DataCopyExtParams(1, 4, 0, 0, 0));
  }
  if (b.bad) DataCopyPad(b.y[GetBlockIdx() + 2], b.ub, DataCopyExtParams(1, 4, 0, 0, 0));
}

// Core 0 copies to the first half of a line, core 1 writes the second by scalar.
__aicore__ inline void CopyThenScalar(Bench &b) {
  b.Clear();
  if (GetBlockIdx() == 0) DataCopyPad(b.z, b.ub, DataCopyExtParams(1, 32, 0, 0, 0));
  if (!b.bad) SyncAll<true>();
  if (GetBlockIdx() == 0) return;
  b.z.SetValue(8, 1);
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(b.z);
}

// The cache holds a line from before a copy, and writes all of it back.
__aicore__ inline void StaleWrite(Bench &b) {
  b.Clear();
  const int32_t before = b.z.GetValue(8);
  SyncAll<true>();
  if (GetBlockIdx() == 0) DataCopyPad(b.z, b.ub, DataCopyExtParams(1, 32, 0, 0, 0));
  SyncAll<true>();
  if (GetBlockIdx() == 0) return;
  if (!b.bad) DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(b.z);
  b.z.SetValue(8, before + 1);
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(b.z);
}

// Reads of single elements do not hide who wrote all of them.
__aicore__ inline void StaleNeighbour(Bench &b) {
  b.Clear();
  if (GetBlockIdx() == 0) DataCopy(b.z, b.ub, 64);
  SyncAll<true>();
  if (GetBlockIdx() == 0 || !b.bad) DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE>(b.z);
  const int64_t at = 2 * GetBlockIdx();
  b.ub.SetValue(0, b.z.GetValue(at) + b.z.GetValue(at + 1));
}

__aicore__ inline void Endless(Bench &b) {
  while (b.bad) b.ub.SetValue(0, 1);
}

__aicore__ inline void RunCores(Bench &b, int which) {
  switch (which) {
    case 200: return Handover(b);
    case 201: return SameBytes(b);
    case 202: return OverwriteWhatOthersRead(b);
    case 203: return MissingSync(b);
    case 204: return FalseSharing(b);
    case 205: return NeverCleaned(b);
    case 206: return StaleRead(b);
    case 207: return CopyMeetsCache(b);
    case 208: return Neighbours(b);
    case 209: return CopyThenScalar(b);
    case 210: return StaleWrite(b);
    case 211: return StaleNeighbour(b);
    default: return Endless(b);
  }
}
