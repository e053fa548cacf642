/* commands.c - messages of process 0 to all others and their answers; the start-up exchange. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/spin.h"
#include "parallel/cluster/state.h"

enum { SPIN_NS = 500000, ALIGNMENT = 64, MAX_PIECES = 16 };

yk_status yk_cluster_send(yk_cluster *c, uint32_t kind, const struct iovec *pieces, int n_pieces, yk_err *err)
{
  size_t n_bytes = 0;
  for (int i = 0; i < n_pieces; i++) n_bytes += pieces[i].iov_len;
  if (n_bytes > YK_FRAME_MAX_COMMAND)
    return yk_err_set(err, YK_E_CAPACITY, "command: expected at most %zu bytes, found %zu", YK_FRAME_MAX_COMMAND,
                      n_bytes);
  YK_TRY(yk_cluster_check(c, err));
  yk_frame head = yk_frame_of(YK_FRAME_COMMAND, n_bytes);
  head.kind = kind;
  for (int p = 1; p < c->n_processes; p++) {
    yk_err why = YK_ERR_INIT;
    if (yk_send_all(c->commands[p], &head, pieces, n_pieces, YK_NO_DEADLINE, &why) != YK_OK)
      return yk_cluster_lost(c, p, &why, err);
  }
  return YK_OK;
}

/* Waits until the socket is readable: polls for a moment, since the next step usually follows soon. */
static bool await_message(int fd, int64_t deadline_ns)
{
  char byte;
  for (yk_spin spin = {0};;) {
    if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN) return true;
    if (!yk_spin_again(&spin, SPIN_NS)) return yk_await(fd, POLLIN, deadline_ns);
  }
}

static yk_status reserve_received(yk_cluster *c, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= c->received_bytes) return YK_OK;
  const size_t capacity = (size_t)yk_round_up_i64((int64_t)(n_bytes + n_bytes / 2), ALIGNMENT);
  free(c->received);
  c->received = aligned_alloc(ALIGNMENT, capacity);
  c->received_bytes = c->received ? capacity : 0;
  return c->received ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a command of %zu bytes", n_bytes);
}

static yk_status receive_message(yk_cluster *c, yk_cluster_message *out, yk_err *err)
{
  yk_frame head;
  const int fd = c->commands[0];
  YK_TRY(yk_receive_all(fd, &head, sizeof head, YK_NO_DEADLINE, err));
  YK_TRY(yk_frame_check(&head, YK_FRAME_COMMAND, YK_FRAME_END, YK_FRAME_MAX_COMMAND, err));
  YK_TRY(reserve_received(c, (size_t)head.n_bytes, err));
  YK_TRY(yk_receive_all(fd, c->received, (size_t)head.n_bytes, YK_NO_DEADLINE, err));
  *out = (yk_cluster_message){
      .is_end = head.type == YK_FRAME_END, .kind = head.kind, .data = c->received, .n_bytes = (size_t)head.n_bytes};
  return YK_OK;
}

static int64_t deadline_of(double timeout_s)
{
  return timeout_s > 0 ? yk_clock_now_ns() + (int64_t)(timeout_s * 1e9) : YK_NO_DEADLINE;
}

yk_status yk_cluster_receive(yk_cluster *c, double timeout_s, yk_cluster_message *out, yk_err *err)
{
  YK_TRY(yk_cluster_check(c, err));
  if (!await_message(c->commands[0], deadline_of(timeout_s)))
    return yk_err_set(err, YK_E_AGAIN, "no command within %.1f s", timeout_s);
  yk_err why = YK_ERR_INIT;
  yk_status status = receive_message(c, out, &why);
  if (status == YK_OK) return YK_OK;
  if (status == YK_E_NOMEM) return yk_err_set(err, status, "%s", why.message);
  return yk_cluster_lost(c, 0, &why, err);
}

yk_status yk_cluster_answer(yk_cluster *c, const yk_err *result, yk_err *err)
{
  yk_answer answer = {.code = (int32_t)result->code, .rank = result->rank};
  answer.head = yk_frame_of(YK_FRAME_ANSWER, sizeof answer - sizeof answer.head);
  if (result->code != YK_OK) snprintf(answer.text, sizeof answer.text, "%s", result->message);
  const struct iovec rest = {.iov_base = &answer.code, .iov_len = (size_t)answer.head.n_bytes};
  YK_TRY(yk_cluster_check(c, err));
  yk_err why = YK_ERR_INIT;
  if (yk_send_all(c->commands[0], &answer.head, &rest, 1, YK_NO_DEADLINE, &why) == YK_OK) return YK_OK;
  return yk_cluster_lost(c, 0, &why, err);
}

/* Reads the bytes of a process's answer that have arrived. */
static yk_status read_answer(yk_cluster *c, int process, yk_err *err)
{
  yk_answer *answer = &c->answers[process];
  size_t *n_got = &c->n_answered[process];
  ssize_t n = recv(c->commands[process], (char *)answer + *n_got, sizeof *answer - *n_got, MSG_DONTWAIT);
  if (n == 0) return yk_err_set(err, YK_E_COMM, "the connection was closed");
  if (n < 0 && errno != EAGAIN && errno != EINTR)
    return yk_err_set(err, YK_E_COMM, "the connection ended (%s)", strerror(errno));
  if (n > 0) *n_got += (size_t)n;
  if (*n_got < sizeof answer->head) return YK_OK;
  return yk_frame_check(&answer->head, YK_FRAME_ANSWER, YK_FRAME_ANSWER, sizeof *answer - sizeof answer->head, err);
}

/* Reads of all processes; returns the number of answers that are not whole, in *n_missing. */
static yk_status read_answers(yk_cluster *c, int *n_missing, yk_err *err)
{
  *n_missing = 0;
  for (int p = 1; p < c->n_processes; p++) {
    yk_err why = YK_ERR_INIT;
    if (c->n_answered[p] == sizeof(yk_answer)) continue;
    if (read_answer(c, p, &why) != YK_OK) return yk_cluster_lost(c, p, &why, err);
    *n_missing += c->n_answered[p] < sizeof(yk_answer);
  }
  return YK_OK;
}

/* Sleeps until a missing answer arrives. Returns false at the deadline. */
static bool sleep_for_answers(const yk_cluster *c, int64_t deadline_ns)
{
  struct pollfd polls[YK_CLUSTER_MAX_PROCESSES];
  int n = 0;
  const int64_t left_ns = deadline_ns - yk_clock_now_ns();
  if (left_ns <= 0) return false;
  for (int p = 1; p < c->n_processes; p++)
    if (c->n_answered[p] < sizeof(yk_answer)) polls[n++] = (struct pollfd){.fd = c->commands[p], .events = POLLIN};
  poll(polls, (nfds_t)n, left_ns < 1000000000 ? (int)(left_ns / 1000000) + 1 : 1000);
  return true;
}

static yk_status late_error(const yk_cluster *c, double timeout_s, yk_err *err)
{
  yk_strbuf names = YK_STRBUF_INIT;
  for (int p = 1; p < c->n_processes; p++)
    if (c->n_answered[p] < sizeof(yk_answer))
      yk_strbuf_append_fmt(&names, "%s%s", names.length ? ", " : "", c->names[p]);
  yk_status status =
      yk_err_set(err, YK_E_TIMEOUT, "no answer within %.1f s: %s", timeout_s, names.data ? names.data : "");
  yk_strbuf_free(&names);
  return status;
}

void yk_cluster_answer_of(const yk_cluster *c, int process, yk_err *out)
{
  const yk_answer *answer = &c->answers[process];
  const bool is_status = answer->code >= YK_OK && answer->code <= YK_E_AGAIN;
  *out = (yk_err){.code = is_status ? (yk_status)answer->code : YK_E_COMM, .rank = answer->rank};
  snprintf(out->message, sizeof out->message, "%.*s", (int)sizeof answer->text, answer->text);
}

/* Takes the whole answers; the first failed one is the error. */
static yk_status take_answers(yk_cluster *c, yk_err *err)
{
  yk_status first = YK_OK;
  for (int p = 1; p < c->n_processes; p++) {
    yk_err answer;
    yk_cluster_answer_of(c, p, &answer);
    c->n_answered[p] = 0;
    if (answer.code == YK_OK || first != YK_OK) continue;
    first = answer.code;
    if (err && err->code == YK_OK) err->rank = answer.rank;
    yk_err_set(err, first, "%s: %s", c->names[p], answer.message);
  }
  return first;
}

yk_status yk_cluster_wait(yk_cluster *c, double timeout_s, yk_err *err)
{
  const int64_t deadline_ns = deadline_of(timeout_s);
  yk_spin spin = {0};
  bool is_spinning = true;
  for (int n_missing = 1;;) {
    YK_TRY(yk_cluster_check(c, err));
    YK_TRY(read_answers(c, &n_missing, err));
    if (n_missing == 0) return take_answers(c, err);
    is_spinning = is_spinning && yk_spin_again(&spin, SPIN_NS);
    if (!is_spinning && !sleep_for_answers(c, deadline_ns)) return late_error(c, timeout_s, err);
  }
}

static yk_status exchange_with(const yk_cluster *c, int process, const void *mine, void *theirs, size_t n_bytes,
                               yk_err *err)
{
  const int fd = c->exchanges[process];
  yk_frame head;
  if (mine) {
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)mine, .iov_len = n_bytes};
    head = yk_frame_of(YK_FRAME_EXCHANGE, n_bytes);
    YK_TRY(yk_send_all(fd, &head, &piece, 1, YK_NO_DEADLINE, err));
  }
  if (!theirs) return YK_OK;
  YK_TRY(yk_receive_all(fd, &head, sizeof head, YK_NO_DEADLINE, err));
  YK_TRY(yk_frame_check(&head, YK_FRAME_EXCHANGE, YK_FRAME_EXCHANGE, n_bytes, err));
  if (head.n_bytes != n_bytes)
    return yk_err_set(err, YK_E_COMM, "exchange: expected %zu bytes, found %zu", n_bytes, (size_t)head.n_bytes);
  return yk_receive_all(fd, theirs, n_bytes, YK_NO_DEADLINE, err);
}

/* Through process 0: it collects, then sends all to all. */
static yk_status all_gather(const yk_exchange *exchange, const void *mine, size_t n_bytes, void *all, yk_err *err)
{
  yk_cluster *c = exchange->context;
  const size_t n_all = n_bytes * (size_t)c->n_processes;
  yk_err why = YK_ERR_INIT;
  if (n_all > YK_FRAME_MAX_EXCHANGE)
    return yk_err_set(err, YK_E_CAPACITY, "exchange: expected at most %zu bytes of all processes, found %zu",
                      YK_FRAME_MAX_EXCHANGE, n_all);
  YK_TRY(yk_cluster_check(c, err));
  memcpy((char *)all + (size_t)c->process * n_bytes, mine, n_bytes);
  if (c->process != 0) {
    if (exchange_with(c, 0, mine, NULL, n_bytes, &why) != YK_OK || exchange_with(c, 0, NULL, all, n_all, &why) != YK_OK)
      return yk_cluster_lost(c, 0, &why, err);
    return YK_OK;
  }
  for (int p = 1; p < c->n_processes; p++)
    if (exchange_with(c, p, NULL, (char *)all + (size_t)p * n_bytes, n_bytes, &why) != YK_OK)
      return yk_cluster_lost(c, p, &why, err);
  for (int p = 1; p < c->n_processes; p++)
    if (exchange_with(c, p, all, NULL, n_all, &why) != YK_OK) return yk_cluster_lost(c, p, &why, err);
  return YK_OK;
}

yk_exchange yk_cluster_exchange(yk_cluster *cluster)
{
  return (yk_exchange){
      .process = cluster->process, .n_processes = cluster->n_processes, .all_gather = all_gather, .context = cluster};
}
