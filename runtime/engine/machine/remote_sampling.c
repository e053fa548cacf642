#include "engine/machine/remote_sampling.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/machine/remote_buffer.h"

struct yk_remote_sampling {
  yk_cluster *cluster;
  int process; /* that samples */
  int fd;      /* between process 0 and that process; -1 elsewhere */
  int32_t vocab, hidden_size;
  /* The process that samples: the last completed step. */
  yk_remote_buffer block, sampled, logits, hidden;
};

yk_status yk_remote_sampling_create(const yk_settings *settings, yk_cluster *cluster, yk_remote_sampling **out,
                                    yk_err *err)
{
  const yk_world *world = &settings->world;
  int own = yk_cluster_process(cluster);
  int process = yk_cluster_process_of(cluster, world->n_ranks - yk_world_group_size(world));
  *out = NULL;
  if (process == 0) return YK_OK;
  yk_remote_sampling *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for the results of another process");
  *s = (yk_remote_sampling){.cluster = cluster,
                            .process = process,
                            .fd = -1,
                            .vocab = settings->limits.step.vocab,
                            .hidden_size = settings->embedding_size};
  *out = s;
  if (own != 0 && own != process) return YK_OK;
  return yk_cluster_link(cluster, own == 0 ? process : 0, "sampling", &s->fd, err);
}

void yk_remote_sampling_destroy(yk_remote_sampling *s)
{
  if (!s) return;
  if (s->fd >= 0) yk_cluster_unlink(s->cluster, s->fd);
  free(s->block.bytes);
  free(s->sampled.bytes);
  free(s->logits.bytes);
  free(s->hidden.bytes);
  free(s);
}

int yk_remote_sampling_process(const yk_remote_sampling *sampling)
{
  return sampling->process;
}

bool yk_remote_sampling_has_arrays(const yk_step *step)
{
  return !step->counts.is_plain && step->counts.n_wanted > 0;
}

/* ---- The process that samples ------------------------------------------------------------------------------------ */

static size_t sampled_bytes(const yk_step *step)
{
  return (size_t)step->counts.n_wanted * sizeof(yk_sampled);
}

static size_t logits_bytes(const yk_remote_sampling *s, const yk_step *step)
{
  return (size_t)step->counts.n_logits * (size_t)s->vocab * sizeof(float);
}

static size_t hidden_bytes(const yk_remote_sampling *s, const yk_step *step)
{
  return (size_t)step->counts.n_hidden * (size_t)s->hidden_size * sizeof(float);
}

yk_status yk_remote_sampling_complete(yk_remote_sampling *s, yk_step *step, const void *arrays, size_t n_bytes,
                                      yk_err *err)
{
  size_t rank_bytes = step->layout.rank_bytes;
  bool has_arrays = yk_remote_sampling_has_arrays(step);
  if (has_arrays && step->layout.n_bytes - rank_bytes != n_bytes)
    return yk_err_set(err, YK_E_COMM, "message of a step: expected %zu bytes of arrays for sampling, found %zu",
                      step->layout.n_bytes - rank_bytes, n_bytes);
  YK_TRY(yk_remote_buffer_reserve(&s->sampled, sampled_bytes(step), "a step", err));
  YK_TRY(yk_remote_buffer_reserve(&s->logits, logits_bytes(s, step), "a step", err));
  YK_TRY(yk_remote_buffer_reserve(&s->hidden, hidden_bytes(s, step), "a step", err));
  step->answer = (yk_step_answer){.sampled = s->sampled.bytes, .logits = s->logits.bytes, .hidden = s->hidden.bytes};
  if (!has_arrays) return YK_OK;
  memcpy((char *)s->block.bytes + rank_bytes, arrays, n_bytes);
  step->block = s->block.bytes;
  return YK_OK;
}

yk_status yk_remote_sampling_keep(yk_remote_sampling *s, const yk_step *step, yk_err *err)
{
  YK_TRY(yk_remote_buffer_reserve(&s->block, step->layout.n_bytes, "a step", err));
  memcpy(s->block.bytes, step->block, step->layout.rank_bytes);
  return YK_OK;
}

/* The connection with a process has ended: the failure of the cluster names the process that has caused that. */
static yk_status lost(const yk_remote_sampling *s, int process, const char *reason, yk_err *err)
{
  yk_err why = YK_ERR_INIT;
  yk_err_set(&why, YK_E_COMM, "results of a step: %s", reason);
  return yk_cluster_lost(s->cluster, process, &why, err);
}

static yk_status send_all(const yk_remote_sampling *s, const void *bytes, size_t n_bytes, yk_err *err)
{
  for (size_t done = 0; done < n_bytes;) {
    ssize_t n = send(s->fd, (const char *)bytes + done, n_bytes - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return lost(s, 0, strerror(errno), err);
    done += (size_t)n;
  }
  return YK_OK;
}

yk_status yk_remote_sampling_give(yk_remote_sampling *s, const yk_step *step, yk_err *err)
{
  YK_TRY(send_all(s, step->answer.sampled, sampled_bytes(step), err));
  YK_TRY(send_all(s, step->answer.logits, logits_bytes(s, step), err));
  return send_all(s, step->answer.hidden, hidden_bytes(s, step), err);
}

/* ---- Process 0 --------------------------------------------------------------------------------------------------- */

static yk_status receive_all(const yk_remote_sampling *s, void *bytes, size_t n_bytes, int64_t deadline_ns, yk_err *err)
{
  const char *name = yk_cluster_name(s->cluster, s->process);
  for (size_t done = 0; done < n_bytes;) {
    struct pollfd polled = {.fd = s->fd, .events = POLLIN};
    int64_t left_ms = deadline_ns == INT64_MAX ? -1 : yk_max_i64(0, (deadline_ns - yk_clock_now_ns()) / 1000000 + 1);
    int ready = poll(&polled, 1, (int)yk_min_i64(left_ms, 1 << 30));
    if (ready == 0) return yk_err_set(err, YK_E_TIMEOUT, "%s has sent no results of a step in time", name);
    ssize_t n = ready > 0 ? recv(s->fd, (char *)bytes + done, n_bytes - done, 0) : -1;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return lost(s, s->process, n < 0 ? strerror(errno) : "the connection was closed", err);
    done += (size_t)n;
  }
  return YK_OK;
}

yk_status yk_remote_sampling_take(yk_remote_sampling *s, const yk_step *step, double timeout_s, yk_err *err)
{
  int64_t deadline_ns = timeout_s > 0 ? yk_clock_now_ns() + (int64_t)(timeout_s * 1e9) : INT64_MAX;
  YK_TRY(receive_all(s, step->answer.sampled, sampled_bytes(step), deadline_ns, err));
  YK_TRY(receive_all(s, step->answer.logits, logits_bytes(s, step), deadline_ns, err));
  return receive_all(s, step->answer.hidden, hidden_bytes(s, step), deadline_ns, err);
}
