/* packing.h - the table of packings: which tensors hold a quantised weight, and how they are checked.
 *
 * A row names the tensors of a packing and their shapes; quant_tensors.c walks the table. A packing whose tensors need
 * other code has its own begin and read. To add a packing, define its row next to the functions that read its elements
 * (int4_packing.h, int8_packing.h), or in the file of its format, declare it below and list it in packing.c. Not for
 * use outside the loader. */
#ifndef YK_LOADER_PACKING_H
#define YK_LOADER_PACKING_H

#include "loader/model/model_config.h"
#include "loader/safetensors/tensors.h"

/* Suffixes of tensors after the module's name; NULL: no such tensor. */
typedef struct yk_packing_names {
  const char *weight, *zeros, *scales, *g_idx, *shape, *global_scale;
} yk_packing_names;

/* k and n must be multiples of these numbers; why: the reason, for messages. */
typedef struct yk_packing_grain {
  int64_t k, n;
  const char *why;
} yk_packing_grain;

typedef struct yk_packing_wishes {
  yk_tensor_wish weight, zeros, scales; /* zeros without a suffix: the packing has none */
} yk_packing_wishes;

typedef struct yk_packing_row {
  yk_packing_names names;

  /* marks - whether a tensor names.weight marks its module as quantised. NULL: the name alone marks it. */
  bool (*marks)(const yk_tensor *weight);

  /* grain - NULL: any k and n. */
  yk_packing_grain (*grain)(yk_weight_format format);

  /* wishes - the required tensors of a layer with known format, k, n and group; zeros are included even if the layer
   * has none. */
  yk_packing_wishes (*wishes)(const yk_weight_view *view);

  /* begin, read - see yk_quant_begin and yk_quant_read, which apply to rows without these functions. */
  yk_status (*begin)(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err);
  yk_status (*read)(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme, yk_weight_view *view,
                    yk_err *err);

  /* g_idx without an order. blank_is_zeros: all zeros, if the configuration has no act order. blank_is_minus_one: all
   * -1; otherwise each group must have group_size inputs. */
  bool blank_is_zeros, blank_is_minus_one;
} yk_packing_row;

/* yk_packing_row_of - the row of a packing. */
const yk_packing_row *yk_packing_row_of(yk_packing packing);

/* yk_packing_bytes - bytes of the tensors of a completed view, rounded; zeros are included even if there are none.
 *   Thread: any. */
typedef struct yk_packing_sizes {
  int64_t weight, zeros, scales;
} yk_packing_sizes;
yk_packing_sizes yk_packing_bytes(const yk_weight_view *view);

extern const yk_packing_row yk_packing_awq_gemm, yk_packing_awq_gemv, yk_packing_awq_gemv_fast, yk_packing_gptq,
    yk_packing_compressed, yk_packing_rows, yk_packing_blocks, yk_packing_products, yk_packing_products_i64,
    yk_packing_bytes_int4, yk_packing_nvfp4, yk_packing_nvfp4_factor, yk_packing_mxfp4, yk_packing_mxfp8;

#endif
