#include "parallel/comm_warm_up.h"

#include <stdlib.h>
#include <string.h>

#include "parallel/rank_group.h"

enum { COUNT = 64 };

/* Owner: yk_comm_warm_up; leaked if a rank hangs. */
typedef struct warm_up {
  yk_comm *ends[YK_MAX_RANKS]; /* of this process */
} warm_up;

static yk_status use_once(yk_comm *end, void *data, yk_err *err)
{
  const yk_dtype dtype = end->dev->dtype;
  const int64_t n_bytes = COUNT * (int64_t)yk_dtype_bytes(dtype);
  if (end->ops->all_reduce) YK_TRY(end->ops->all_reduce(end, data, COUNT, dtype, err));
  if (end->ops->gather) YK_TRY(end->ops->gather(end, data, n_bytes, err));
  if (end->ops->receive_previous && end->stage > 0) YK_TRY(end->ops->receive_previous(end, data, n_bytes, err));
  if (end->ops->send_next && end->stage < end->n_stages - 1) YK_TRY(end->ops->send_next(end, data, n_bytes, err));
  return end->dev->ops->sync(end->dev, err);
}

static yk_status run_rank(void *context, int rank, const void *command, yk_err *err)
{
  const warm_up *w = context;
  yk_comm *end = w->ends[rank - yk_comm_world_rank(w->ends[0])];
  yk_device *dev = end->dev;
  void *data;
  (void)command;
  YK_TRY(dev->ops->alloc(dev, (size_t)w->ends[0]->n_ranks * COUNT * yk_dtype_bytes(dev->dtype), &data, err));
  yk_status status = use_once(end, data, err);
  dev->ops->free(dev, data);
  return status;
}

yk_status yk_comm_warm_up(yk_comm *const *ends, int n_local, double timeout_s, yk_err *err)
{
  const double grace_s = 5;
  yk_rank_group *group = NULL;
  warm_up *w = calloc(1, sizeof *w);
  if (!w) return yk_err_set(err, YK_E_NOMEM, "no memory to try a communicator");
  memcpy(w->ends, ends, (size_t)n_local * sizeof *ends);
  yk_rank_group_ops ops = {.first_rank = yk_comm_world_rank(ends[0]), .run = run_rank, .context = w, .comms = w->ends};
  yk_status status = yk_rank_group_create(n_local, &ops, &group, err);
  if (status == YK_OK) status = yk_rank_group_run(group, w, timeout_s, err);
  if (yk_rank_group_destroy(group, grace_s)) free(w);
  return status;
}
