/* packing_words.c - the tensors of packings with several elements per word: AWQ, GPTQ and compressed-tensors. int4_*.c
 * and int8_*.c read their elements. */
#include "base/checked.h"
#include "loader/integers/int4_packing.h"
#include "loader/integers/packing.h"

#define AWQ_NAMES                                                                                                      \
  {                                                                                                                    \
    .weight = "qweight", .zeros = "qzeros", .scales = "scales"                                                         \
  }

static int64_t per_word(yk_weight_format format)
{
  return 32 / yk_weight_traits_of(format)->bits;
}

static int64_t n_groups(const yk_weight_view *view)
{
  return view->k / view->group;
}

/* ---- AWQ --------------------------------------------------------------------------------------------------------- */

static yk_packing_grain gemm_grain(yk_weight_format format)
{
  (void)format;
  return (yk_packing_grain){1, 8, "AWQ packs 8 columns"};
}

static yk_packing_grain gemv_grain(yk_weight_format format)
{
  (void)format;
  return (yk_packing_grain){8, 8, "AWQ gemv packs 8 inputs"};
}

static yk_packing_grain gemv_fast_grain(yk_weight_format format)
{
  (void)format;
  return (yk_packing_grain){64, 8, "AWQ gemv_fast packs 4 outputs by 64 inputs"};
}

static yk_packing_wishes gemm_wishes(const yk_weight_view *view)
{
  int64_t words = view->n / per_word(view->format);
  return (yk_packing_wishes){.weight = {"qweight", YK_TENSORS_I32, 2, {view->k, words}},
                             .zeros = {"qzeros", YK_TENSORS_I32, 2, {n_groups(view), words}},
                             .scales = {"scales", YK_TENSORS_FLOAT, 2, {n_groups(view), view->n}}};
}

static yk_packing_wishes gemv_wishes(const yk_weight_view *view)
{
  int64_t n = view->n, zero_words = yk_int4_gemv_zero_words(view->k, view->group);
  return (yk_packing_wishes){.weight = {"qweight", YK_TENSORS_I32, 2, {n, view->k / 8}},
                             .zeros = {"qzeros", YK_TENSORS_I32, 2, {n, zero_words}},
                             .scales = {"scales", YK_TENSORS_FLOAT, 2, {n, 8 * zero_words}}};
}

static yk_packing_wishes gemv_fast_wishes(const yk_weight_view *view)
{
  int64_t n = view->n, n_scales = 8 * yk_int4_gemv_zero_words(view->k, view->group);
  return (yk_packing_wishes){.weight = {"qweight", YK_TENSORS_I16, 2, {n / 4, view->k}},
                             .zeros = {"qzeros", YK_TENSORS_FLOAT, 2, {n_scales, n}},
                             .scales = {"scales", YK_TENSORS_FLOAT, 2, {n_scales, n}}};
}

const yk_packing_row yk_packing_awq_gemm = {.names = AWQ_NAMES, .grain = gemm_grain, .wishes = gemm_wishes};
const yk_packing_row yk_packing_awq_gemv = {.names = AWQ_NAMES, .grain = gemv_grain, .wishes = gemv_wishes};
const yk_packing_row yk_packing_awq_gemv_fast = {
    .names = AWQ_NAMES, .grain = gemv_fast_grain, .wishes = gemv_fast_wishes};

/* ---- GPTQ -------------------------------------------------------------------------------------------------------- */

static yk_packing_grain gptq_grain(yk_weight_format format)
{
  if (per_word(format) == 8) return (yk_packing_grain){8, 8, "GPTQ packs 8 inputs, and 8 outputs of its zeros"};
  return (yk_packing_grain){4, 4, "GPTQ packs 4 inputs, and 4 outputs of its zeros, of 8 bits"};
}

static yk_packing_wishes gptq_wishes(const yk_weight_view *view)
{
  yk_packing_wishes wishes = gemm_wishes(view);
  wishes.weight = (yk_tensor_wish){"qweight", YK_TENSORS_I32, 2, {view->k / per_word(view->format), view->n}};
  return wishes;
}

const yk_packing_row yk_packing_gptq = {
    .names = {.weight = "qweight", .zeros = "qzeros", .scales = "scales", .g_idx = "g_idx"},
    .grain = gptq_grain,
    .wishes = gptq_wishes,
    .blank_is_zeros = true};

/* ---- compressed-tensors ------------------------------------------------------------------------------------------ */

static yk_packing_wishes compressed_wishes(const yk_weight_view *view)
{
  int64_t k = view->k, n = view->n, unit = per_word(view->format), groups = n_groups(view);
  return (yk_packing_wishes){.weight = {"weight_packed", YK_TENSORS_I32, 2, {n, yk_ceil_div_i64(k, unit)}},
                             .zeros = {"weight_zero_point", YK_TENSORS_I32, 2, {yk_ceil_div_i64(n, unit), groups}},
                             .scales = {"weight_scale", YK_TENSORS_FLOAT, 2, {n, groups}}};
}

const yk_packing_row yk_packing_compressed = {.names = {.weight = "weight_packed",
                                                        .zeros = "weight_zero_point",
                                                        .scales = "weight_scale",
                                                        .g_idx = "weight_g_idx",
                                                        .shape = "weight_shape"},
                                              .wishes = compressed_wishes,
                                              .blank_is_minus_one = true};
