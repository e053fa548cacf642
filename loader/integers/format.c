#include "loader/integers/format.h"

const yk_loader_format *yk_loader_format_of(yk_weight_format format)
{
  static const yk_loader_format *const formats[YK_N_WEIGHT_FORMATS] = {[YK_WEIGHT_PLAIN] = &yk_loader_format_plain,
                                                                       [YK_WEIGHT_AWQ] = &yk_loader_format_int4,
                                                                       [YK_WEIGHT_INT8] = &yk_loader_format_int8,
                                                                       [YK_WEIGHT_FP8] = &yk_loader_format_fp8,
                                                                       [YK_WEIGHT_FP4] = &yk_loader_format_fp4};
  return formats[format];
}
