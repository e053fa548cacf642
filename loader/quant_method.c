#include "loader/quant_method.h"

#include "loader/foreign/description_check.h"
#include "loader/integers/quant_tensors.h"

static const yk_quant_method_row common = {.begin = yk_quant_begin, .read = yk_quant_read};

static const yk_quant_method_row msmodelslim = {.is_described = true,
                                                .begin = yk_msmodelslim_begin,
                                                .read = yk_msmodelslim_read,
                                                .find_norm = yk_msmodelslim_norm_of,
                                                .check_files = yk_description_check};

const yk_quant_method_row *yk_quant_method_row_of(yk_quant_method method)
{
  return method == YK_QUANT_MSMODELSLIM ? &msmodelslim : &common;
}
