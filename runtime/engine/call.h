/* call.h - something that a caller asks the engine thread to do, and waits for. */
#ifndef YK_ENGINE_CALL_H
#define YK_ENGINE_CALL_H

#include "yoke/yoke.h"

/* Lives on the caller's stack, as the first member of what the call is about. */
typedef struct yk_call {
  void (*run)(yk_engine *engine, struct yk_call *call); /* on the engine thread, which answers now or later */
  bool works_after_failure;
  struct yk_call *next; /* in the engine's list of calls */
  bool done;            /* under engine.mutex */
  yk_err err;
} yk_call;

/* yk_call_ask - hand a call to the engine thread and wait for its answer. Errors: the answer's, or the engine's own
 *   failure, or YK_E_CANCELLED where the engine stops. Any thread but the engine's. */
yk_status yk_call_ask(yk_engine *engine, yk_call *call, yk_err *err);

/* yk_call_answer - wake the caller; err NULL: the call worked. The call must not be touched afterwards. Engine
 *   thread. */
void yk_call_answer(yk_engine *engine, yk_call *call, const yk_err *err);

#endif
