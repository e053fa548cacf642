/* call.h - a function that a caller runs on the engine thread, and waits for. */
#ifndef YK_ENGINE_CALL_H
#define YK_ENGINE_CALL_H

#include "yoke/yoke.h"

/* Lives on the caller's stack, as the first member of the call's own struct. */
typedef struct yk_call {
  void (*run)(yk_engine *engine, struct yk_call *call); /* runs on the engine thread, which answers at once or later */
  bool works_after_failure;
  struct yk_call *next; /* in the engine's list of calls */
  bool done;            /* under engine.mutex */
  yk_err err;
} yk_call;

/* yk_call_run - pass a call to the engine thread and wait for the answer. Errors: those of the answer, the engine's own
 *   failure, or YK_E_CANCELLED if the engine stops. Any thread except the engine's. */
yk_status yk_call_run(yk_engine *engine, yk_call *call, yk_err *err);

/* yk_call_answer - wake the caller; err NULL: success. The call must not be touched afterwards. Engine thread. */
void yk_call_answer(yk_engine *engine, yk_call *call, const yk_err *err);

#endif
