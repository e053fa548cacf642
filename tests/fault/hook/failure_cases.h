/* failure_cases.h - engines that fail: each request's error, its delay, and the state afterwards.
 *
 * An error may make CUDA unusable in its process, so each case runs in a separate process: the test program again, with
 * --case NAME. */
#ifndef TESTS_FAULT_HOOK_FAILURE_CASES_H
#define TESTS_FAULT_HOOK_FAILURE_CASES_H

#include "yoke/yoke.h"

/* State after the failed engine is destroyed. */
typedef enum failure_end {
  AGAIN_WORKS, /* a new engine gives the same answers as before the failure */
  NEW_PROCESS, /* create refuses at once and reports that a new process is needed */
  LEFT_ALONE,  /* destroy reports that a rank hangs; a new engine works at the same time */
  STILL_HANGS  /* the same, but create refuses after a while; once the spinning kernel has ended, an engine works */
} failure_end;

typedef struct failure_case {
  const char *name, *fault; /* the fault, in the form of fault_hook.h */
  int n_ranks;
  double step_timeout_s; /* of the failing engine; 0: the default */
  bool fails_at_load;    /* create fails; else every request fails */
  yk_status code;        /* YK_OK: any */
  int rank;              /* rank in the error; -1: any */
  const char *parts[6];  /* each is in the message */
  double within_s;       /* from submit to every request's end */
  failure_end end;
  bool runs_alone; /* runs alone, and its memory must be returned */
  bool nccl_only;  /* engines have disable_custom_all_reduce */
} failure_case;

/* failure_cases_main - main of a test program: n_parallel cases at once on GPUs or CPU ranks. */
int failure_cases_main(int argc, char **argv, yk_device_kind kind, const failure_case *cases, int n_cases,
                       int n_parallel);

#endif
