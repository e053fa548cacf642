#include "model/decode_parts.h"

#include "kernels/decode_layers.h"

int64_t *yk_decode_parts_stamp(yk_step_profile *profile, int32_t first_layer, int32_t n_layers)
{
  static const struct {
    yk_operation_kind kind;
    const char *name;
  } parts[YK_DECODE_N_PARTS] = {[YK_DECODE_PART_QKV] = {YK_OPERATION_GEMM_QKV, "qkv_proj"},
                                [YK_DECODE_PART_ATTENTION] = {YK_OPERATION_ATTENTION, "attention"},
                                [YK_DECODE_PART_O] = {YK_OPERATION_GEMM_O, "o_proj"},
                                [YK_DECODE_PART_SUM_OF_O] = {YK_OPERATION_ALL_REDUCE, "all-reduce after attention"},
                                [YK_DECODE_PART_GATE_UP] = {YK_OPERATION_GEMM_GATE_UP, "gate_up_proj"},
                                [YK_DECODE_PART_DOWN] = {YK_OPERATION_GEMM_DOWN, "down_proj"},
                                [YK_DECODE_PART_SUM_OF_DOWN] = {YK_OPERATION_ALL_REDUCE, "all-reduce after FFN"}};
  int64_t *first = NULL;
  for (int32_t i = 0; i < n_layers * YK_DECODE_N_PARTS; i++) {
    const int part = i % YK_DECODE_N_PARTS;
    const yk_timed_operation operation = {.kind = parts[part].kind,
                                          .layer = first_layer + i / YK_DECODE_N_PARTS,
                                          .name = parts[part].name,
                                          .is_internal = true};
    int64_t *at = yk_step_profile_add(profile, &operation);
    if (!at) return NULL;
    if (i == 0) first = at;
  }
  return first;
}
