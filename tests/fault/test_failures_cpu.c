/* CPU ranks that fail or stall, in separate processes: see fault/hook/failure_cases.h. */
#include "fault/hook/failure_cases.h"
#include "yoke/process.h"

static const failure_case cases[] = {
    {.name = "an_operation_fails",
     .fault = "rank=1 operation=attention call=7 fault=error",
     .n_ranks = 2,
     .code = YK_E_DEVICE,
     .rank = 1,
     .parts = {"rank 1, layer ", "attention: made to fail"},
     .within_s = 5},
    {.name = "a_rank_stalls",
     .fault = "rank=1 operation=attention call=6 fault=stall-host seconds=4",
     .n_ranks = 2,
     .step_timeout_s = 1,
     .code = YK_E_TIMEOUT,
     .rank = 1,
     .parts = {"rank 0, 1 did not finish a step within 1 s; rank 1 is furthest behind; rank 0 is at ",
               "rank 1 is at layer 1, attention"},
     .within_s = 10},
    {.name = "the_only_rank_stalls",
     .fault = "rank=0 operation=attention call=1 fault=stall-host seconds=4",
     .n_ranks = 1,
     .step_timeout_s = 1,
     .code = YK_E_TIMEOUT,
     .rank = 0,
     .parts = {"rank 0 did not finish a step within 1 s; rank 0 is at layer 0, attention"},
     .within_s = 4},
    {.name = "a_rank_hangs",
     .fault = "rank=0 operation=attention call=1 fault=stall-host seconds=300",
     .n_ranks = 1,
     .step_timeout_s = 1,
     .code = YK_E_TIMEOUT,
     .rank = 0,
     .parts = {"rank 0 did not finish a step within 1 s; rank 0 is at layer 0, attention"},
     .within_s = 4,
     .end = LEFT_ALONE},
};

int main(int argc, char **argv)
{
  yk_process_init();
  return failure_cases_main(argc, argv, YK_DEVICE_CPU, cases, sizeof cases / sizeof *cases, 3);
}
