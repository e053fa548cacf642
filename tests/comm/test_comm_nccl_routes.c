/* test_comm_nccl_routes.c - the conformance suite over stores into peers' memory, where the first argument and not the
 * size chooses: "one_shot" or "two_shot". On as many GPUs as there are (at least two). */
#include "comm/gpu_fixture.h"
#include "parallel/comm_auto.h"
#include "parallel/p2p/links_p2p.h"
#include "yoke/process.h"

enum { HIDDEN = 4096, MAX_ROWS = 2048 };
static const double step_limit_s = 2;

/* The crossover that yk_comm_auto_create gets (wrapped in tests/CMakeLists.txt). */
static int64_t one_shot_bytes;

yk_p2p_options __real_yk_p2p_options_for(int n_ranks, int64_t max_rows, int64_t row_bytes, double limit_s);
yk_p2p_options __wrap_yk_p2p_options_for(int n_ranks, int64_t max_rows, int64_t row_bytes, double limit_s);
yk_p2p_options __wrap_yk_p2p_options_for(int n_ranks, int64_t max_rows, int64_t row_bytes, double limit_s)
{
  yk_p2p_options options = __real_yk_p2p_options_for(n_ranks, max_rows, row_bytes, limit_s);
  options.one_shot_bytes = options.short_rows_one_shot_bytes = one_shot_bytes;
  return options;
}

static bool open_routes(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  yk_err err = YK_ERR_INIT;
  if (!open_gpus(n_ranks, dtype, devs)) return false;
  const yk_comm_auto_options options = {.max_rows = MAX_ROWS, .hidden = HIDDEN, .step_limit_s = step_limit_s};
  const yk_world world = yk_world_of_process(n_ranks);
  const yk_exchange alone = yk_exchange_alone();
  if (yk_comm_auto_create(&world, &alone, NULL, devs, &options, comms, &err) == YK_OK) {
    const yk_p2p_route expected = one_shot_bytes == 1 ? YK_P2P_TWO_SHOT : YK_P2P_ONE_SHOT;
    for (int64_t n_rows = 1; n_ranks > 1 && n_rows <= 1024; n_rows += 1023)
      if (yk_comm_auto_route(comms[0], n_rows) != expected) abort();
    return true;
  }
  printf("%s\n", err.message);
  abort();
}

/* Arrays of odd sizes go over NCCL, which rounds at each hop. */
static double rounding_steps(int n_ranks, comm_shape shape)
{
  return shape.hidden % 8 ? n_ranks : 1;
}

static bool reach_each_other(int n_ranks)
{
  bool all = true, one = false;
  for (int from = 0; from < n_ranks; from++)
    for (int to = 0; to < n_ranks; to++)
      if (from != to) all = yk_p2p_link_query(from, to, &one, NULL) == YK_OK && one && all;
  return all;
}

/* From a row of a thread block to many, from few packets to many. */
static const comm_shape large_shapes[] = {{1, 4096},   {2, 8},      {7, 744},   {31, 1640},  {64, 4096},
                                          {129, 2288}, {300, 4088}, {700, 104}, {2000, 200}, {1024, 4096}};

int main(int argc, char **argv)
{
  yk_process_init();
  int exit_code, n_gpus = gpus_to_test(&exit_code);
  if (n_gpus == 0) return exit_code;
  if (argc != 2 || (strcmp(argv[1], "one_shot") && strcmp(argv[1], "two_shot"))) {
    printf("%s: expected one_shot or two_shot\n", argv[0]);
    return 1;
  }
  if (!reach_each_other(n_gpus)) {
    printf("skipped, GPUs cannot reach each other's memory\n");
    return 77;
  }
  one_shot_bytes = strcmp(argv[1], "one_shot") == 0 ? INT64_MAX : 1;
  const comm_fixture fixture = {.name = argv[1],
                                .open = open_routes,
                                .close = close_gpus,
                                .max_ranks = n_gpus,
                                .rounding_steps = rounding_steps,
                                .large_shapes = large_shapes,
                                .n_large_shapes = sizeof large_shapes / sizeof *large_shapes,
                                .opens_slowly = true,
                                .step_limit_s = step_limit_s};
  return comm_conformance_run(&fixture);
}
