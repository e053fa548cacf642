/* format.c - the weight formats of the CUDA device. Nothing else is defined here, so that a test program can bring a
 * table with rows of its own: the linker takes the program's. */
#include "kernels/cuda/linear/format.h"

const yk_cuda_format *const yk_cuda_formats[] = {&yk_cuda_format_awq,
                                                 &yk_cuda_format_awq_as_16_bits,
                                                 &yk_cuda_format_w8a8,
                                                 &yk_cuda_format_int8,
                                                 &yk_cuda_format_int8_as_16_bits,
                                                 &yk_cuda_format_fp8,
                                                 &yk_cuda_format_plain,
                                                 NULL};
