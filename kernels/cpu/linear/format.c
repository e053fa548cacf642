/* format.c - the weight formats of the CPU device. The file defines only the table, so that a test program can link a
 * table with its own rows in place of this one. */
#include "kernels/cpu/linear/format.h"

const yk_cpu_format *const yk_cpu_formats[] = {&yk_cpu_format_awq_as_16_bits,
                                               &yk_cpu_format_awq_fp8_inputs,
                                               &yk_cpu_format_awq_int8_inputs,
                                               &yk_cpu_format_awq,
                                               &yk_cpu_format_w8a8,
                                               &yk_cpu_format_int8,
                                               &yk_cpu_format_fp8,
                                               &yk_cpu_format_fp4,
                                               &yk_cpu_format_plain,
                                               NULL};
