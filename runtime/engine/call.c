#include "engine/call.h"

#include "engine/engine_internal.h"
#include "engine/engine_stats.h"

yk_status yk_call_run(yk_engine *engine, yk_call *call, yk_err *err)
{
  call->err = YK_ERR_INIT;
  pthread_mutex_lock(&engine->mutex);
  if (engine->failure.code != YK_OK && !call->works_after_failure)
    call->err = engine->failure;
  else if (engine->stopping)
    yk_err_set(&call->err, YK_E_CANCELLED, "the engine is stopping");
  else {
    *engine->calls_end = call;
    engine->calls_end = &call->next;
    pthread_cond_signal(&engine->cv_work);
    while (!call->done) pthread_cond_wait(&engine->cv_call, &engine->mutex);
  }
  pthread_mutex_unlock(&engine->mutex);
  if (call->err.code != YK_OK && err && err->code == YK_OK) *err = call->err;
  return call->err.code;
}

void yk_call_answer(yk_engine *engine, yk_call *call, const yk_err *err)
{
  pthread_mutex_lock(&engine->mutex);
  if (err) call->err = *err;
  call->done = true;
  yk_engine_refresh_gauges(engine);
  pthread_cond_broadcast(&engine->cv_call);
  pthread_mutex_unlock(&engine->mutex);
}
