#include "model/rank_loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void report(const yk_rank_loader *loader, int64_t n_bytes)
{
  if (loader->on_bytes) loader->on_bytes(loader->user, n_bytes);
}

yk_status yk_rank_alloc(const yk_rank_loader *loader, size_t n_bytes, void **out, yk_err *err)
{
  if (n_bytes == 0) return YK_OK;
  return loader->dev->ops->alloc(loader->dev, n_bytes, out, err);
}

/* Copy n elements to the device, converted to its activation type and multiplied by scale, through a small buffer. */
static yk_status upload_converted(const yk_rank_loader *loader, void *dst, yk_dtype dtype, const void *src, int64_t n,
                                  float scale, yk_err *err)
{
  enum { CHUNK = 1 << 16 };
  yk_device *dev = loader->dev;
  if (dtype == dev->dtype && scale == 1) return dev->ops->upload(dev, dst, src, (size_t)n * yk_dtype_bytes(dtype), err);
  char *chunk = malloc(CHUNK * sizeof(float));
  if (!chunk) return yk_err_set(err, YK_E_NOMEM, "no memory for a conversion buffer");
  yk_status status = YK_OK;
  size_t from_bytes = yk_dtype_bytes(dtype), to_bytes = yk_dtype_bytes(dev->dtype);
  for (int64_t done = 0; done < n && status == YK_OK; done += CHUNK) {
    size_t count = (size_t)yk_min_i64(CHUNK, n - done);
    const char *from = (const char *)src + (size_t)done * from_bytes;
    for (size_t i = 0; i < count; i++) {
      char element[sizeof(float)] = {0}; /* the source may be unaligned */
      memcpy(element, from + i * from_bytes, from_bytes);
      float value;
      if (dtype == YK_F32)
        memcpy(&value, element, sizeof value);
      else {
        uint16_t half;
        memcpy(&half, element, sizeof half);
        value = dtype == YK_F16 ? yk_f16_to_f32(half) : yk_bf16_to_f32(half);
      }
      yk_dtype_store(dev->dtype, chunk, i, value * scale);
    }
    status = dev->ops->upload(dev, (char *)dst + (size_t)done * to_bytes, chunk, count * to_bytes, err);
  }
  free(chunk);
  return status;
}

yk_status yk_rank_load_vector(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, int64_t n, float scale,
                              void **out, yk_err *err)
{
  yk_vector_view view;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(loader->dev->dtype);
  YK_TRY(yk_checkpoint_norm(loader->source.checkpoint, role, layer, n, &view, err));
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, view.dtype, view.data, n, scale, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

yk_status yk_rank_load_embedding(const yk_rank_loader *loader, void **out, yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  yk_range vocab = loader->source.share.vocab;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_view view;
  int64_t hidden = c->hidden_size, n = yk_range_size(vocab) * hidden;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(loader->dev->dtype);
  if (n == 0) return YK_OK;
  yk_weight_name(c->family, YK_ROLE_EMBEDDING, 0, name);
  YK_TRY(yk_checkpoint_matrix(loader->source.checkpoint, name, c->vocab_size, hidden, &view, err));
  const char *first = (const char *)view.plain + (size_t)(vocab.begin * hidden) * yk_dtype_bytes(view.dtype);
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, view.dtype, first, n, 1, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

yk_status yk_rank_load_linear(const yk_rank_loader *loader, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_linear_spec brought;
  for (int i = 0; i < spec->n_parts; i++) yk_checkpoint_prefetch(&spec->parts[i].weight);
  YK_TRY(yk_bring(&loader->source.dev, spec, loader->brought, &brought, err));
  YK_TRY(yk_bring_biases(spec, loader->biases, &brought, err));
  YK_TRY(loader->dev->ops->linear_create(loader->dev, &brought, out, err));
  report(loader, loader->dev->ops->linear_bytes(&brought));
  return YK_OK;
}
