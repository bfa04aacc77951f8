// The subset of the kernel API that the core model runs, with CANN's names.
#pragma once

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__

#include "hostsim/cast.h"
#include "hostsim/copy.h"
#include "hostsim/gather.h"
#include "hostsim/kernel_tiling.h"
#include "hostsim/pipe.h"
#include "hostsim/select.h"
#include "hostsim/sync.h"
#include "hostsim/vector.h"
