#include "hone/device/tensor.h"
