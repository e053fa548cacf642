/* One GPU that fails, stalls or runs out of memory: see fault/hook/failure_cases.h. */
#include "fault/hook/failure_cases.h"
#include "yoke/process.h"

#define POISONED                                                                                                       \
  {                                                                                                                    \
    "rank 0", "GPU 0: ", "illegal memory access", "a new process is needed"                                            \
  }

static const failure_case cases[] = {
    {.name = "a_kernel_hangs_for_ever", /* first, because it takes longest */
     .fault = "rank=0 operation=attention call=2 fault=stall-gpu",
     .n_ranks = 1,
     .step_timeout_s = 1,
     .code = YK_E_TIMEOUT,
     .rank = 0,
     .parts = {"rank 0 did not finish a step within 1 s; rank 0 is at ", " on GPU 0"},
     .within_s = 6,
     .end = STILL_HANGS},
    {.name = "an_illegal_address_in_a_prompt",
     .fault = "rank=0 operation=attention call=2 fault=illegal-address",
     .n_ranks = 1,
     .code = YK_E_DEVICE,
     .rank = 0,
     .parts = POISONED,
     .within_s = 10,
     .end = NEW_PROCESS},
    {.name = "an_illegal_address_in_a_decode_graph",
     .fault = "rank=0 operation=graph_run call=3 fault=illegal-address",
     .n_ranks = 1,
     .code = YK_E_DEVICE,
     .rank = 0,
     .parts = POISONED,
     .within_s = 10,
     .end = NEW_PROCESS},
    {.name = "an_illegal_address_while_loading",
     .fault = "rank=0 operation=linear_create call=4 fault=illegal-address",
     .n_ranks = 1,
     .fails_at_load = true,
     .code = YK_E_DEVICE,
     .rank = 0,
     .parts = POISONED,
     .end = NEW_PROCESS},
    {.name = "a_launch_failure",
     .fault = "rank=0 operation=sample call=2 fault=launch-failure",
     .n_ranks = 1,
     .code = YK_E_DEVICE,
     .rank = 0,
     .parts = {"rank 0", "GPU 0: ", "a new process is needed"},
     .within_s = 10,
     .end = NEW_PROCESS},
    {.name = "an_operation_fails",
     .fault = "rank=0 operation=linear_forward call=5 fault=error",
     .n_ranks = 1,
     .code = YK_E_DEVICE,
     .rank = 0,
     .parts = {"rank 0, layer 1, qkv_proj: made to fail"},
     .within_s = 10},
    {.name = "the_host_stalls_while_recording",
     .fault = "rank=0 operation=attention call=7 fault=stall-host seconds=3",
     .n_ranks = 1,
     .step_timeout_s = 1,
     .code = YK_E_TIMEOUT,
     .rank = 0,
     .parts = {"did not finish a step within 1 s; rank 0 is at layer 0, attention on GPU 0"},
     .within_s = 6},
    {.name = "memory_runs_out_while_loading",
     .fault = "rank=0 operation=alloc call=5 fault=no-memory",
     .n_ranks = 1,
     .fails_at_load = true,
     .code = YK_E_CAPACITY,
     .rank = 0,
     .parts = {"rank 0, loading: GPU 0: no memory for ", " bytes; ", " are free"},
     .runs_alone = true},
    {.name = "a_kernel_stalls",
     .fault = "rank=0 operation=graph_run call=2 fault=stall-gpu seconds=3",
     .n_ranks = 1,
     .step_timeout_s = 1,
     .code = YK_E_TIMEOUT,
     .rank = 0,
     .parts = {"rank 0 did not finish a step within 1 s; rank 0 is at ", " on GPU 0"},
     .within_s = 6,
     .runs_alone = true},
};

int main(int argc, char **argv)
{
  yk_process_init();
  return failure_cases_main(argc, argv, YK_DEVICE_CUDA, cases, sizeof cases / sizeof *cases, 8);
}
