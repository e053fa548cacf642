#include "loader/integers/packing.h"

const yk_packing_row *yk_packing_row_of(yk_packing packing)
{
  static const yk_packing_row *const rows[YK_N_PACKINGS] = {[YK_PACKING_AWQ_GEMM] = &yk_packing_awq_gemm,
                                                            [YK_PACKING_AWQ_GEMV] = &yk_packing_awq_gemv,
                                                            [YK_PACKING_AWQ_GEMV_FAST] = &yk_packing_awq_gemv_fast,
                                                            [YK_PACKING_GPTQ] = &yk_packing_gptq,
                                                            [YK_PACKING_COMPRESSED] = &yk_packing_compressed,
                                                            [YK_PACKING_ROWS] = &yk_packing_rows,
                                                            [YK_PACKING_BLOCKS] = &yk_packing_blocks,
                                                            [YK_PACKING_PRODUCTS] = &yk_packing_products,
                                                            [YK_PACKING_PRODUCTS_I64] = &yk_packing_products_i64,
                                                            [YK_PACKING_BYTES] = &yk_packing_bytes_int4,
                                                            [YK_PACKING_NVFP4] = &yk_packing_nvfp4,
                                                            [YK_PACKING_NVFP4_FACTOR] = &yk_packing_nvfp4_factor,
                                                            [YK_PACKING_MXFP4] = &yk_packing_mxfp4,
                                                            [YK_PACKING_MXFP8] = &yk_packing_mxfp8};
  return rows[packing];
}

static int64_t bytes_of(const yk_tensor_wish *wish, yk_dtype dtype)
{
  if (!wish->suffix) return 0;
  static const int64_t element_bytes[] = {[YK_TENSORS_I8] = 1,  [YK_TENSORS_U8] = 1,  [YK_TENSORS_I16] = 2,
                                          [YK_TENSORS_I32] = 4, [YK_TENSORS_I64] = 8, [YK_TENSORS_FP8] = 1};
  int64_t n = wish->kind == YK_TENSORS_FLOAT ? (int64_t)yk_dtype_bytes(dtype) : element_bytes[wish->kind];
  for (int32_t i = 0; i < wish->n_dims; i++) n *= wish->shape[i];
  return n;
}

yk_packing_sizes yk_packing_bytes(const yk_weight_view *view)
{
  const yk_packing_wishes wishes = yk_packing_row_of(view->packing)->wishes(view);
  return (yk_packing_sizes){bytes_of(&wishes.weight, view->dtype), bytes_of(&wishes.zeros, view->dtype),
                            bytes_of(&wishes.scales, view->dtype)};
}
