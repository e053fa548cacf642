#include "loader/own_head.h"

#include <string.h>

#include "loader/integers/quant_tensors.h"
#include "loader/safetensors/tensors.h"

static bool is_same(const yk_tensor *a, const yk_tensor *b)
{
  return a->dtype == b->dtype && a->n_dims == b->n_dims &&
         memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape) == 0 &&
         memcmp(a->data, b->data, a->n_bytes) == 0;
}

yk_head yk_head_of(const yk_shards *shards, const char *embedding, const char *head)
{
  const yk_tensor *tensor = yk_tensors_find(shards, head, "weight", NULL);
  const yk_tensor *embedded = yk_tensors_find(shards, embedding, "weight", NULL);
  const char *quantised = yk_quant_suffix(shards, head);
  if (!tensor && !quantised) return YK_HEAD_ABSENT;
  if (quantised && strcmp(quantised, "weight") != 0) return YK_HEAD_OWN;
  return tensor && embedded && is_same(tensor, embedded) ? YK_HEAD_SAME : YK_HEAD_OWN;
}
