/* packing_bytes.c - the tensors of packings with unpacked bytes. int8_*.c and int4_bytes.c read their elements. */
#include "base/checked.h"
#include "loader/integers/block_tensors.h"
#include "loader/integers/int8_inputs.h"
#include "loader/integers/packing.h"

static bool is_8_bits(const yk_tensor *weight)
{
  return weight->dtype == YK_TENSOR_I8 || weight->dtype == YK_TENSOR_F8_E4M3 || weight->dtype == YK_TENSOR_F8_E5M2;
}

static yk_status begin_blocks(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err)
{
  yk_block_tensors_begin(scheme, view);
  return yk_int8_inputs_begin(module, scheme, view, err);
}

static yk_status read_blocks(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                             yk_weight_view *view, yk_err *err)
{
  YK_TRY(begin_blocks(module, scheme, view, err));
  YK_TRY(yk_block_tensors_read(shards, module, scheme, view, err));
  YK_TRY(yk_tensors_require_symmetric(shards, module, "weight_zero_point", err));
  return yk_int8_inputs_read(shards, module, scheme, view, err);
}

static yk_packing_wishes wishes_of(const yk_weight_view *view, int64_t n_scale_rows)
{
  int64_t n_groups = yk_ceil_div_i64(view->k, view->group);
  const yk_tensor_kind kind = view->format == YK_WEIGHT_FP8 ? YK_TENSORS_FP8 : YK_TENSORS_I8;
  return (yk_packing_wishes){.weight = {"weight", kind, 2, {view->n, view->k}},
                             .zeros = {"weight_offset", YK_TENSORS_FLOAT, 2, {view->n, n_groups}},
                             .scales = {"weight_scale", YK_TENSORS_FLOAT, 2, {n_scale_rows, n_groups}}};
}

static yk_packing_wishes block_wishes(const yk_weight_view *view)
{
  return wishes_of(view, yk_ceil_div_i64(view->n, view->group_n));
}

static yk_packing_wishes row_wishes(const yk_weight_view *view)
{
  return wishes_of(view, view->n);
}

const yk_packing_row yk_packing_blocks = {.names = {.weight = "weight", .scales = "weight_scale"},
                                          .marks = is_8_bits,
                                          .wishes = block_wishes,
                                          .begin = begin_blocks,
                                          .read = read_blocks};

static yk_packing_wishes int4_wishes(const yk_weight_view *view)
{
  return (yk_packing_wishes){.weight = {"weight", YK_TENSORS_I8, 2, {view->n, view->k}},
                             .scales = {"weight_scale", YK_TENSORS_FLOAT, 2, {view->n, view->k / view->group}}};
}

const yk_packing_row yk_packing_bytes_int4 = {
    .names = {.weight = "weight", .zeros = "weight_zero_point", .scales = "weight_scale"},
    .marks = is_8_bits,
    .wishes = int4_wishes};

/* A description (foreign/msmodelslim_tensors.h), not a tensor, marks the modules of these packings. */
const yk_packing_row yk_packing_rows = {.wishes = row_wishes};
const yk_packing_row yk_packing_products = {.wishes = row_wishes};
const yk_packing_row yk_packing_products_i64 = {.wishes = row_wishes};
