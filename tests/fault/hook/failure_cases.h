/* failure_cases.h - engines that fail: who is told what, how soon, and what works afterwards.
 *
 * An error may poison its process, so each case runs in a process of its own: the test program again, with --case
 * NAME. */
#ifndef TESTS_FAULT_HOOK_FAILURE_CASES_H
#define TESTS_FAULT_HOOK_FAILURE_CASES_H

#include "yoke/yoke.h"

/* What follows once the failed engine is destroyed. */
typedef enum failure_end {
  AGAIN_WORKS, /* a new engine answers as one did before the failure */
  NEW_PROCESS, /* create refuses at once and says that a new process is needed */
  LEFT_ALONE,  /* destroy says that a rank hangs; a new engine works beside it */
  STILL_HANGS  /* the same, and create refuses after a while; once the kernel that spins has ended, an engine works */
} failure_end;

typedef struct failure_case {
  const char *name, *fault; /* the fault as in fault_hook.h */
  int n_ranks;
  double step_timeout_s; /* of the failing engine; 0: the default */
  bool fails_at_load;    /* create fails; else every request does */
  yk_status code;        /* YK_OK: any */
  int rank;              /* that the error names; -1: any */
  const char *parts[6];  /* each is in the message */
  double within_s;       /* from submit to every request's end */
  failure_end end;
  bool runs_alone;      /* nothing runs beside it, and its memory must come back */
  const char *variable; /* NAME=VALUE for its process, or NULL */
} failure_case;

/* failure_cases_main - main of a test program: n_parallel cases at once on GPUs or CPU ranks. */
int failure_cases_main(int argc, char **argv, yk_device_kind kind, const failure_case *cases, int n_cases,
                       int n_parallel);

#endif
