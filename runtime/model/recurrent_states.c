#include "model/recurrent_states.h"

yk_status yk_recurrent_states_load(const yk_rank_loader *loader, int64_t n_bytes, yk_recurrent_states *out, yk_err *err)
{
  const yk_model_limits *limits = loader->source.limits;
  out->n_bytes = n_bytes;
  YK_TRY(yk_rank_alloc(loader, (size_t)limits->step.max_seqs * (size_t)n_bytes, &out->states, err));
  if (limits->n_state_entries == 0) return YK_OK;
  return yk_rank_alloc(loader, (size_t)limits->n_state_entries * (size_t)n_bytes, &out->snapshots, err);
}

yk_status yk_recurrent_states_copy(const yk_recurrent_states *s, yk_device *dev, const yk_step_copy *c, yk_err *err)
{
  char *states = s->states;
  if (c->from_slot < 0 || s->n_bytes == 0) return YK_OK;
  return dev->ops->copy(dev, states + c->to_slot * s->n_bytes, states + c->from_slot * s->n_bytes, (size_t)s->n_bytes,
                        err);
}

void yk_recurrent_states_free(const yk_recurrent_states *states, yk_device *dev)
{
  dev->ops->free(dev, states->states);
  dev->ops->free(dev, states->snapshots);
}
