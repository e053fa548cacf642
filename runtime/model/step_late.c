#include "model/step_late.h"

#include "base/wait.h"

void yk_step_late_init(yk_step_late *late)
{
  pthread_mutex_init(&late->mutex, NULL);
  yk_cond_init(&late->cv_filled);
  late->is_filled = true;
}

void yk_step_late_destroy(yk_step_late *late)
{
  pthread_cond_destroy(&late->cv_filled);
  pthread_mutex_destroy(&late->mutex);
}

void yk_step_late_expect(yk_step_late *late)
{
  pthread_mutex_lock(&late->mutex);
  late->is_filled = false;
  pthread_mutex_unlock(&late->mutex);
}

void yk_step_late_fill(yk_step_late *late)
{
  pthread_mutex_lock(&late->mutex);
  late->is_filled = true;
  pthread_cond_broadcast(&late->cv_filled);
  pthread_mutex_unlock(&late->mutex);
}

yk_status yk_step_late_await(yk_step_late *late, const atomic_bool *is_stopped, yk_err *err)
{
  const double look_every_s = 0.005;
  pthread_mutex_lock(&late->mutex);
  while (!late->is_filled && !atomic_load(is_stopped)) {
    struct timespec deadline = yk_wait_deadline(look_every_s);
    pthread_cond_timedwait(&late->cv_filled, &late->mutex, &deadline);
  }
  bool is_filled = late->is_filled;
  pthread_mutex_unlock(&late->mutex);
  return is_filled ? YK_OK : yk_err_set(err, YK_E_COMM, "the step failed before its late data arrived");
}
