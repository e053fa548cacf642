/* msmodelslim_fixture.h - checkpoints of msmodelslim with one layer, for tests. */
#ifndef YK_UNIT_MSMODELSLIM_FIXTURE_H
#define YK_UNIT_MSMODELSLIM_FIXTURE_H

#include "unit/loader_fixture.h"
#include "unit/single_quotes.h"

#include "base/dtype.h"
#include "loader/checkpoint.h"

#define Q    "model.layers.0.self_attn.q_proj"
#define DOWN "model.layers.0.mlp.down_proj"
#define NORM "model.layers.0.input_layernorm"

static const char config_text[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, \"intermediate_size\": 8, \"num_hidden_layers\": "
    "1,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 2, \"vocab_size\": 16, \"max_position_embeddings\": 32}";

/* A file's tensors, in the order of addition; names may be in any order. */
typedef struct file_builder {
  char header[4096], data[4096];
  size_t n_data;
} file_builder;

/* value: of every element, in the type's form. */
static inline void add(file_builder *f, const char *name, const char *dtype, const char *shape, int64_t n, double value)
{
  size_t used = strlen(f->header), begin = f->n_data;
  for (int64_t i = 0; i < n; i++) {
    char *to = f->data + f->n_data;
    float f32 = (float)value;
    uint16_t f16 = yk_f32_to_f16(f32);
    int32_t i32 = (int32_t)value;
    int64_t i64 = 0;
    memcpy(&i64, &f32, 4); /* in deq_scale's form */
    if (strcmp(dtype, "I8") == 0) *to = (char)i32;
    if (strcmp(dtype, "F16") == 0) memcpy(to, &f16, 2);
    if (strcmp(dtype, "F32") == 0) memcpy(to, &f32, 4);
    if (strcmp(dtype, "I32") == 0) memcpy(to, &i32, 4);
    if (strcmp(dtype, "I64") == 0) memcpy(to, &i64, 8);
    f->n_data += dtype[1] == '8' ? 1 : (size_t)atoi(dtype + 1) / 8;
  }
  snprintf(f->header + used, sizeof f->header - used,
           "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", used ? "," : "{", name, dtype, shape,
           begin, f->n_data);
}

static inline void write_weights(const temp_dir *dir, const char *name, const file_builder *f)
{
  char header[4200];
  snprintf(header, sizeof header, "%s}", f->header[0] ? f->header : "{");
  yk_strbuf image = safetensors_image(header, f->data, f->n_data);
  write_file(dir, name, image.data, image.length);
  yk_strbuf_free(&image);
}

/* A directory of one file and a description, opened. */
static inline yk_status open_with(const temp_dir *dir, const file_builder *f, const char *description,
                                  const yk_log *log, yk_checkpoint **out, yk_err *err)
{
  write_text(dir, "config.json", config_text);
  char *text = double_quoted(description);
  write_text(dir, "quant_model_description_w8a8.json", text);
  free(text);
  write_weights(dir, "quant_model_weight_w8a8.safetensors", f);
  return yk_checkpoint_open(dir->path, log, out, err);
}

typedef struct tensor {
  const char *suffix, *dtype, *shape;
  int64_t n;
  double value;
} tensor;

enum { MAX_TENSORS = 5 };

#endif
