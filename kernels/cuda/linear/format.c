/* format.c - the weight formats of the CUDA device. The file defines only the table, so that a test program can link a
 * table with its own rows in place of this one. */
#include "kernels/cuda/layout/format.h"

const yk_cuda_format *const yk_cuda_formats[] = {&yk_cuda_format_awq_fp8_inputs,
                                                 &yk_cuda_format_awq_int8_inputs,
                                                 &yk_cuda_format_awq,
                                                 &yk_cuda_format_awq_as_16_bits,
                                                 &yk_cuda_format_w8a8,
                                                 &yk_cuda_format_int8,
                                                 &yk_cuda_format_int8_to_f32,
                                                 &yk_cuda_format_int8_as_16_bits,
                                                 &yk_cuda_format_fp8,
                                                 &yk_cuda_format_fp4,
                                                 &yk_cuda_format_plain,
                                                 NULL};
