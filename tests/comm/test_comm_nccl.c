/* test_comm_nccl.c - the conformance suite over NCCL, on as many GPUs as there are (at least two). */
#include "comm/gpu_fixture.h"
#include "parallel/comm_nccl.h"
#include "yoke/process.h"

static bool open_nccl(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  yk_err err = YK_ERR_INIT;
  if (!open_gpus(n_ranks, dtype, devs)) return false;
  const yk_world world = yk_world_of_process(n_ranks);
  const yk_exchange alone = yk_exchange_alone();
  if (yk_comm_nccl_create(&world, YK_NCCL_ALL, &alone, NULL, devs, comms, &err) == YK_OK) return true;
  printf("%s\n", err.message);
  abort();
}

static double round_each_hop(int n_ranks, comm_shape shape)
{
  (void)shape;
  return n_ranks;
}

int main(void)
{
  yk_process_init();
  int exit_code, n_gpus = gpus_to_test(&exit_code);
  if (n_gpus == 0) return exit_code;
  comm_fixture fixture = {.name = "nccl",
                          .open = open_nccl,
                          .close = close_gpus,
                          .max_ranks = n_gpus,
                          .rounding_steps = round_each_hop,
                          .large_shapes = gpu_large_shapes,
                          .n_large_shapes = 3,
                          .opens_slowly = true};
  return comm_conformance_run(&fixture);
}
