#include "comm/conformance.h"

static bool open_local(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  for (int rank = 0; rank < n_ranks; rank++)
    if (yk_cpu_device_create(dtype, 1, &limits, &devs[rank], NULL) != YK_OK) return false;
  return yk_comm_local_create(devs, n_ranks, comms, NULL) == YK_OK;
}

static void close_local(int n_ranks, yk_device **devs, yk_comm **comms)
{
  for (int rank = 0; rank < n_ranks; rank++) {
    comms[rank]->ops->destroy(comms[rank]);
    devs[rank]->ops->destroy(devs[rank]);
  }
}

static double round_once(int n_ranks, comm_shape shape)
{
  (void)n_ranks, (void)shape;
  return 1;
}

int main(void)
{
  comm_fixture fixture = {.name = "local",
                          .open = open_local,
                          .close = close_local,
                          .max_ranks = YK_MAX_RANKS,
                          .rounding_steps = round_once};
  return comm_conformance_run(&fixture);
}
