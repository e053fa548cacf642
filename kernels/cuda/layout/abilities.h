/* abilities.h - the CUDA device's table of abilities, in every build. */
#ifndef YK_KERNELS_CUDA_LAYOUT_ABILITIES_H
#define YK_KERNELS_CUDA_LAYOUT_ABILITIES_H

#include "kernels/abilities.h"

extern const yk_device_abilities yk_cuda_abilities;

#endif
