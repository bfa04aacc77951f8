#pragma once
#include "exe_graph/runtime/contexts.h"
