/* GPUs that wait for each other, one of which fails: see fault/hook/failure_cases.h. */
#include "fault/hook/failure_cases.h"
#include "yoke/process.h"

/* An all-reduce between peers reports the missing rank; NCCL does not, and every waiting rank is named.
 *
 * GPUs that reach each other's memory in one process fail together: after an illegal address on one, CUDA returns the
 * same error for all of them. The first rank that checks is named, which may be another one. */
#define RANK_1_IS_MISSING                                                                                              \
  .n_ranks = 2, .step_timeout_s = 1, .rank = 1, .parts = {"rank 1", "GPU 1"}, .within_s = 6, .runs_alone = true
#define SOMEBODY_IS_MISSING                                                                                            \
  .n_ranks = 2, .step_timeout_s = 1, .code = YK_E_TIMEOUT, .rank = -1,                                                 \
  .parts = {"did not finish a step within 1 s; rank ", " is at ", " on GPU "}, .within_s = 6, .runs_alone = true
#define ALL_POISONED                                                                                                   \
  {                                                                                                                    \
    "rank ", "GPU ", "illegal memory access", "a new process is needed"                                                \
  }
#define OVER_NCCL .nccl_only = true

static const failure_case cases[] = {
    {.name = "a_peer_stays_away_from_a_prompt",
     .fault = "rank=1 operation=all_reduce_add_norm call=2 fault=skip",
     RANK_1_IS_MISSING},
    {.name = "a_peer_stays_away_from_a_prompt_over_nccl",
     .fault = "rank=1 operation=all_reduce_add_norm call=2 fault=skip",
     SOMEBODY_IS_MISSING,
     OVER_NCCL},
    {.name = "a_peer_stays_away_from_a_decode_graph",
     .fault = "rank=1 operation=graph_run call=3 fault=skip",
     RANK_1_IS_MISSING},
    {.name = "a_peer_stays_away_from_a_decode_graph_over_nccl",
     .fault = "rank=1 operation=graph_run call=3 fault=skip",
     SOMEBODY_IS_MISSING,
     OVER_NCCL},
    {.name = "an_operation_fails_beside_a_decode_graph_over_nccl",
     .fault = "rank=1 operation=graph_run call=3 fault=error",
     .n_ranks = 2,
     .code = YK_E_DEVICE,
     .rank = 1,
     .parts = {"rank 1, decode graph: made to fail"},
     .within_s = 5,
     .runs_alone = true,
     OVER_NCCL},
    {.name = "a_peer_stays_away_from_the_logits",
     .fault = "rank=1 operation=await_writes call=2 fault=skip",
     RANK_1_IS_MISSING},
    {.name = "nccl_refuses",
     .fault = "rank=1 operation=gather call=2 fault=bad-peer",
     .n_ranks = 2,
     .code = YK_E_COMM,
     .rank = 1,
     .parts = {"rank 1, logits gather: GPU 1: NCCL send: invalid argument"},
     .within_s = 5,
     .runs_alone = true,
     OVER_NCCL},
    {.name = "the_host_stalls",
     .fault = "rank=1 operation=attention call=2 fault=stall-host seconds=3",
     RANK_1_IS_MISSING},
    {.name = "a_kernel_stalls",
     .fault = "rank=1 operation=graph_run call=2 fault=stall-gpu seconds=3",
     RANK_1_IS_MISSING},
    {.name = "memory_runs_out_while_loading",
     .fault = "rank=1 operation=alloc call=5 fault=no-memory",
     .n_ranks = 2,
     .fails_at_load = true,
     .code = YK_E_CAPACITY,
     .rank = 1,
     .parts = {"rank 1, loading: GPU 1: no memory for ", " bytes; ", " are free"},
     .runs_alone = true},
    {.name = "the_last_of_four_fails",
     .fault = "rank=3 operation=graph_run call=2 fault=error",
     .n_ranks = 4,
     .code = YK_E_DEVICE,
     .rank = 3,
     .parts = {"rank 3, decode graph: made to fail"},
     .within_s = 5,
     .runs_alone = true},
    {.name = "an_illegal_address",
     .fault = "rank=1 operation=attention call=2 fault=illegal-address",
     .n_ranks = 2,
     .rank = -1,
     .parts = ALL_POISONED,
     .within_s = 10,
     .end = NEW_PROCESS},
    {.name = "an_illegal_address_in_a_decode_graph_over_nccl",
     .fault = "rank=1 operation=graph_run call=3 fault=illegal-address",
     .n_ranks = 2,
     .rank = -1,
     .parts = ALL_POISONED,
     .within_s = 10,
     .end = NEW_PROCESS,
     OVER_NCCL},
};

int main(int argc, char **argv)
{
  yk_process_init();
  return failure_cases_main(argc, argv, YK_DEVICE_CUDA, cases, sizeof cases / sizeof *cases, 2);
}
