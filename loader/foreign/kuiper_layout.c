#include "loader/foreign/kuiper_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/model/model_config.h"

enum { MAGIC = 0x616b3438, VERSION = 5, MAX_GROUP = 1024, MIN_GROUP = 16, PACKED = 8 };

/* Byte offsets of the fields. */
enum {
  AT_VERSION = 4,
  AT_NUMBERS = 8,
  AT_SHARED = 36,
  AT_HEAD_DIM = 37,
  AT_GROUP = 41,
  AT_PADDING = 45,
  N_NUMBERS = 7
};

/* ---- Header ------------------------------------------------------------------------------------------------------ */

static uint32_t get_u32(const uint8_t *bytes)
{
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
  for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

bool yk_kuiper_has_magic(const void *bytes, size_t n_bytes)
{
  return n_bytes >= 4 && get_u32(bytes) == MAGIC;
}

/* A header field that gives a number of columns or inputs, which AWQ packs and scales. */
typedef struct width {
  const char *what;
  int64_t size;
} width;

static yk_status check_multiple(const char *file, width w, const char *of, int32_t unit, yk_err *err)
{
  if (w.size % unit == 0) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s: %s %" PRId64 ": expected a multiple of %s%s%d", file, w.what, w.size, of,
                    of[0] ? " " : "", unit);
}

static yk_status check_widths(const char *file, const yk_kuiper_header *h, yk_err *err)
{
  const width widths[] = {{"dim", h->dim},
                          {"hidden_dim", h->hidden_dim},
                          {"n_heads times head_dim", (int64_t)h->n_heads * h->head_dim},
                          {"n_kv_heads times head_dim", (int64_t)h->n_kv_heads * h->head_dim}};
  for (int i = 0; i < 4; i++) {
    YK_TRY(check_multiple(file, widths[i], "", PACKED, err));
    bool is_input = i < 3;
    if (is_input && h->group_size > 0) YK_TRY(check_multiple(file, widths[i], "group_size", h->group_size, err));
  }
  return YK_OK;
}

yk_status yk_kuiper_header_check(const char *file, const yk_kuiper_header *h, yk_err *err)
{
  const struct {
    const char *name;
    int32_t found, min, max;
  } fields[] = {{"dim", h->dim, 1, YK_MAX_HIDDEN},
                {"hidden_dim", h->hidden_dim, 1, YK_MAX_FFN},
                {"n_layers", h->n_layers, 1, YK_MAX_LAYERS},
                {"n_heads", h->n_heads, 1, YK_MAX_HEADS},
                {"n_kv_heads", h->n_kv_heads, 1, YK_MAX_HEADS},
                {"vocab_size", h->vocab_size, 1, YK_MAX_VOCAB},
                {"max_seq_len", h->max_seq_len, 1, YK_MAX_POSITIONS},
                {"head_dim", h->head_dim, 2, YK_MAX_HEAD_DIM}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].found < fields[i].min || fields[i].found > fields[i].max)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected %d to %d, found %d", file, fields[i].name, fields[i].min,
                        fields[i].max, fields[i].found);
  int32_t group = h->group_size;
  if (group != -1 && (group < MIN_GROUP || group > MAX_GROUP || (group & (group - 1)) != 0))
    return yk_err_set(err, YK_E_FORMAT, "%s: group_size: expected 16, 32, 64, 128, 256, 512, 1024 or -1, found %d",
                      file, group);
  YK_TRY(check_multiple(file, (width){"head_dim", h->head_dim}, "", 2, err));
  YK_TRY(check_multiple(file, (width){"n_heads", h->n_heads}, "n_kv_heads", h->n_kv_heads, err));
  return check_widths(file, h, err);
}

static yk_status check_frame(const char *file, const uint8_t *bytes, uint64_t n_bytes, yk_err *err)
{
  if (n_bytes < YK_KUIPER_HEADER_BYTES)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected a header of %d bytes, found %" PRIu64 " bytes", file,
                      YK_KUIPER_HEADER_BYTES, n_bytes);
  if (get_u32(bytes) != MAGIC)
    return yk_err_set(err, YK_E_FORMAT, "%s: magic: expected 0x%x (KuiperLLama's Qwen3 with AWQ weights), found 0x%x",
                      file, (unsigned)MAGIC, get_u32(bytes));
  if (get_u32(bytes + AT_VERSION) != VERSION)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: version: expected %d, found %d", file, VERSION,
                      (int)get_u32(bytes + AT_VERSION));
  if (bytes[AT_SHARED] > 1)
    return yk_err_set(err, YK_E_FORMAT, "%s: shared_classifier: expected 0 or 1, found %d", file, bytes[AT_SHARED]);
  for (int i = AT_PADDING; i < YK_KUIPER_HEADER_BYTES; i++)
    if (bytes[i] != 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: byte %d of the header: expected 0, found %d", file, i, bytes[i]);
  return YK_OK;
}

yk_status yk_kuiper_header_read(const char *file, const void *bytes, uint64_t n_bytes, yk_kuiper_header *out,
                                yk_err *err)
{
  const uint8_t *from = bytes;
  YK_TRY(check_frame(file, from, n_bytes, err));
  int32_t numbers[N_NUMBERS];
  for (int i = 0; i < N_NUMBERS; i++) numbers[i] = (int32_t)get_u32(from + AT_NUMBERS + 4 * i);
  int32_t vocab = numbers[5];
  const yk_kuiper_header header = {.dim = numbers[0],
                                   .hidden_dim = numbers[1],
                                   .n_layers = numbers[2],
                                   .n_heads = numbers[3],
                                   .n_kv_heads = numbers[4],
                                   .vocab_size = vocab < 0 && vocab != INT32_MIN ? -vocab : vocab,
                                   .max_seq_len = numbers[6],
                                   .shared_classifier = from[AT_SHARED] != 0,
                                   .head_dim = (int32_t)get_u32(from + AT_HEAD_DIM),
                                   .group_size = (int32_t)get_u32(from + AT_GROUP)};
  YK_TRY(yk_kuiper_header_check(file, &header, err));
  *out = header;
  return YK_OK;
}

void yk_kuiper_header_write(const yk_kuiper_header *h, uint8_t out[YK_KUIPER_HEADER_BYTES])
{
  const int32_t numbers[N_NUMBERS] = {h->dim,        h->hidden_dim, h->n_layers,   h->n_heads,
                                      h->n_kv_heads, h->vocab_size, h->max_seq_len};
  memset(out, 0, YK_KUIPER_HEADER_BYTES);
  put_u32(out, MAGIC);
  put_u32(out + AT_VERSION, VERSION);
  for (int i = 0; i < N_NUMBERS; i++) put_u32(out + AT_NUMBERS + 4 * i, (uint32_t)numbers[i]);
  out[AT_SHARED] = h->shared_classifier;
  put_u32(out + AT_HEAD_DIM, (uint32_t)h->head_dim);
  put_u32(out + AT_GROUP, (uint32_t)h->group_size);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static void add(yk_kuiper_layout *l, yk_kuiper_tensor part, yk_tensor_dtype dtype, int64_t n_rows, int64_t n_columns)
{
  size_t i = l->n_tensors++;
  static const yk_model_config names = {.family = YK_FAMILY_QWEN3};
  char module[YK_WEIGHT_NAME_BYTES];
  yk_tensor *tensor = &l->tensors[i];
  yk_weight_name(&names, part.role, part.layer, module);
  snprintf(l->names[i], YK_KUIPER_NAME_BYTES, "%s.%s", module, part.suffix);
  *tensor = (yk_tensor){.name = l->names[i], .dtype = dtype, .n_dims = n_rows ? 2 : 1};
  tensor->shape[0] = n_rows ? n_rows : n_columns;
  if (n_rows) tensor->shape[1] = n_columns;
  yk_tensor_bytes(tensor, &tensor->n_bytes); /* the checked ranges exclude an overflow */
  l->parts[i] = part;
  l->file_bytes += tensor->n_bytes;
}

static void add_norms(yk_kuiper_layout *l, yk_weight_role role, int32_t n_layers, int64_t n)
{
  for (int32_t layer = 0; layer < n_layers; layer++)
    add(l, (yk_kuiper_tensor){role, layer, "weight"}, YK_TENSOR_F16, 0, n);
}

static void add_quantised(yk_kuiper_layout *l, yk_weight_role role, const yk_kuiper_header *h, int64_t k, int64_t n)
{
  int64_t n_groups = h->group_size == -1 ? 1 : k / h->group_size;
  for (int32_t layer = 0; layer < h->n_layers; layer++) {
    add(l, (yk_kuiper_tensor){role, layer, "qweight"}, YK_TENSOR_I32, k, n / PACKED);
    add(l, (yk_kuiper_tensor){role, layer, "qzeros"}, YK_TENSOR_I32, n_groups, n / PACKED);
    add(l, (yk_kuiper_tensor){role, layer, "scales"}, YK_TENSOR_F16, n_groups, n);
  }
}

static void add_all(yk_kuiper_layout *l, const yk_kuiper_header *h)
{
  int64_t q = (int64_t)h->n_heads * h->head_dim, kv = (int64_t)h->n_kv_heads * h->head_dim;
  add_norms(l, YK_ROLE_ATTENTION_NORM, h->n_layers, h->dim);
  add_norms(l, YK_ROLE_FFN_NORM, h->n_layers, h->dim);
  add_norms(l, YK_ROLE_FINAL_NORM, 1, h->dim);
  add(l, (yk_kuiper_tensor){YK_ROLE_EMBEDDING, 0, "weight"}, YK_TENSOR_F16, h->vocab_size, h->dim);
  add_quantised(l, YK_ROLE_Q, h, h->dim, q);
  add_quantised(l, YK_ROLE_K, h, h->dim, kv);
  add_quantised(l, YK_ROLE_V, h, h->dim, kv);
  add_quantised(l, YK_ROLE_O, h, q, h->dim);
  add_quantised(l, YK_ROLE_GATE, h, h->dim, h->hidden_dim);
  add_quantised(l, YK_ROLE_DOWN, h, h->hidden_dim, h->dim);
  add_quantised(l, YK_ROLE_UP, h, h->dim, h->hidden_dim);
  if (!h->shared_classifier)
    add(l, (yk_kuiper_tensor){YK_ROLE_LM_HEAD, 0, "weight"}, YK_TENSOR_F16, h->vocab_size, h->dim);
  add_norms(l, YK_ROLE_Q_NORM, h->n_layers, h->head_dim);
  add_norms(l, YK_ROLE_K_NORM, h->n_layers, h->head_dim);
}

yk_status yk_kuiper_layout_make(const yk_kuiper_header *header, yk_kuiper_layout *out, yk_err *err)
{
  enum { PER_LAYER = 4 + 7 * 3, OTHERS = 3 };
  size_t n_max = (size_t)header->n_layers * PER_LAYER + OTHERS;
  yk_kuiper_layout layout = {.tensors = calloc(n_max, sizeof *layout.tensors),
                             .parts = calloc(n_max, sizeof *layout.parts),
                             .names = calloc(n_max, sizeof *layout.names),
                             .file_bytes = YK_KUIPER_HEADER_BYTES};
  if (!layout.tensors || !layout.parts || !layout.names) {
    yk_kuiper_layout_free(&layout);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a table of %zu tensors", n_max);
  }
  add_all(&layout, header);
  *out = layout;
  return YK_OK;
}

void yk_kuiper_layout_free(yk_kuiper_layout *layout)
{
  free(layout->tensors);
  free(layout->parts);
  free(layout->names);
  *layout = (yk_kuiper_layout){0};
}
