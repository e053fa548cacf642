/* helper_process.h - a Python process that answers requests in JSON, one at a time, within limits.
 *
 * Both sides write frames: the length of a JSON text as four bytes, least significant first, then the text. The process
 * has no descriptor but its end of the connection and /dev/null, and sandboxes itself before its first request. */
#ifndef YK_BASE_HELPER_PROCESS_H
#define YK_BASE_HELPER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/embedded.h"
#include "base/json.h"
#include "base/status.h"

enum { YK_HELPER_MAX_FRAME_BYTES = 64 << 20 };

/* The Python program of a process. main(memory_limit_bytes, time_limit_s, argument) of its last module runs. */
typedef struct yk_helper_program {
  const yk_embedded_file *files; /* NAME.py of each module */
  const char *const *modules;    /* [n_modules] in an order in which they can be imported, after syscall_filter */
  size_t n_modules;              /* at most YK_HELPER_MAX_MODULES */
  const char *argument;
} yk_helper_program;

enum { YK_HELPER_MAX_MODULES = 6 };

typedef struct yk_helper_process {
  pid_t pid; /* 0: no process */
  int fd;    /* this process' end of the connection */
} yk_helper_process;

/* yk_helper_start - start `python` with the program. The process limits its address space, and ends itself a
 *   second after the time limit of a request. Errors: YK_E_UNSUPPORTED (no such program), YK_E_IO. */
yk_status yk_helper_start(const char *python, const yk_helper_program *program, int64_t memory_limit_bytes,
                          double time_limit_s, yk_helper_process *helper, yk_err *err);

/* yk_helper_is_alive - whether the process runs and has not closed the connection. */
bool yk_helper_is_alive(const yk_helper_process *helper);

/* yk_helper_call - send a request and wait for its answer, an object (yk_json_free).
 *   Errors: YK_E_TIMEOUT, YK_E_CAPACITY (the request or the answer is longer than a frame may be), YK_E_IO (the process
 *   died during the request), YK_E_INTERNAL (an invalid answer), YK_E_NOMEM. After any of them the process has been
 *   ended, unless the request was not sent. */
yk_status yk_helper_call(yk_helper_process *helper, const char *request, size_t n_bytes, double time_limit_s,
                         yk_json_doc **answer, yk_err *err);

/* yk_helper_end - kill the process and wait for its end. */
void yk_helper_end(yk_helper_process *helper);

#endif
