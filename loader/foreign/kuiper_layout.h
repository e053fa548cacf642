/* kuiper_layout.h - the layout of a KuiperLLama model file of Qwen3 with AWQ weights (magic "ak48", version 5). Shared
 * by reading and writing. For use in the loader and in code that writes such files.
 *
 * A header of 256 bytes, little-endian and packed, then tensors one after another without names:
 *
 *   0  u32 magic   4  i32 version   8  i32 dim   12 hidden_dim   16 n_layers   20 n_heads   24 n_kv_heads
 *   28 vocab_size   32 max_seq_len   36 u8 shared_classifier   37 i32 head_dim   41 i32 group_size   45 zeros
 *
 *   float16      input norms of all layers, norms before the FFN of all layers, final norm, embedding
 *   AWQ "gemm"   for each of q, k, v, o, gate, down, up: of all layers qweight, qzeros, scales (kernels/weight.h)
 *   float16      lm_head unless shared, norms of q of all layers, norms of k of all layers
 *
 * Field names are those of the tool that writes such files (tools/export_qwen3-8B-awq.py of KuiperLLama). Missing
 * settings have Qwen3's values: a rotary base of 1e6, an epsilon of 1e-6, SiLU, no biases, no windows. */
#ifndef YK_LOADER_KUIPER_LAYOUT_H
#define YK_LOADER_KUIPER_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "loader/model/weight_names.h"
#include "loader/safetensors/safetensors.h"

enum { YK_KUIPER_HEADER_BYTES = 256, YK_KUIPER_NAME_BYTES = YK_WEIGHT_NAME_BYTES + 16 };

#define YK_KUIPER_ROPE_THETA   1e6
#define YK_KUIPER_RMS_NORM_EPS 1e-6

typedef struct yk_kuiper_header {
  int32_t dim, hidden_dim; /* hidden size, FFN size */
  int32_t n_layers, n_heads, n_kv_heads, vocab_size, max_seq_len, head_dim;
  int32_t group_size; /* -1: all inputs of a layer */
  bool shared_classifier;
} yk_kuiper_header;

/* The role and layer of a tensor. */
typedef struct yk_kuiper_tensor {
  yk_weight_role role;
  int32_t layer;
  const char *suffix; /* "weight", "qweight", "qzeros", "scales" */
} yk_kuiper_tensor;

/* All tensors in the file's order. Free with yk_kuiper_layout_free. */
typedef struct yk_kuiper_layout {
  size_t n_tensors;
  yk_tensor *tensors;      /* [n_tensors] Hugging Face's name, dtype, shape, n_bytes; data is NULL */
  yk_kuiper_tensor *parts; /* [n_tensors] */
  char (*names)[YK_KUIPER_NAME_BYTES];
  uint64_t file_bytes; /* size of a complete file */
} yk_kuiper_layout;

/* yk_kuiper_has_magic - whether bytes [n_bytes] begin like such a file, of any version. */
bool yk_kuiper_has_magic(const void *bytes, size_t n_bytes);

/* yk_kuiper_header_check - check the range of every number and all divisibility rules. file: for messages.
 *   Errors: YK_E_FORMAT naming file, field, expected and found. */
yk_status yk_kuiper_header_check(const char *file, const yk_kuiper_header *header, yk_err *err);

/* yk_kuiper_header_read - read and check a header from a file's first bytes; a negative vocab_size is negated. Errors:
 *   those above, also for fewer than 256 bytes, another magic and padding that is not 0; YK_E_UNSUPPORTED for another
 *   version. */
yk_status yk_kuiper_header_read(const char *file, const void *bytes, uint64_t n_bytes, yk_kuiper_header *out,
                                yk_err *err);

/* yk_kuiper_header_write - write a checked header. */
void yk_kuiper_header_write(const yk_kuiper_header *header, uint8_t out[YK_KUIPER_HEADER_BYTES]);

/* yk_kuiper_layout_make - the layout for a checked header. Errors: YK_E_NOMEM. */
yk_status yk_kuiper_layout_make(const yk_kuiper_header *header, yk_kuiper_layout *out, yk_err *err);
void yk_kuiper_layout_free(yk_kuiper_layout *layout);

#endif
