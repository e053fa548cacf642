#define _GNU_SOURCE /* memmem */
#include "server/http.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/access.h"
#include "server/bodies.h"
#include "server/engine_state.h"
#include "server/generation.h"
#include "server/request_id.h"
#include "server/request_log.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "server/suspension.h"

enum {
  STREAM_BLOCK_BYTES = 256,
  RETRY_ELSEWHERE_S = 1 /* while stopping: a router then sends requests to another server */
};

/* The page uses no resources of other origins, and no other page may frame it. */
#define PAGE_POLICY "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* ---- Beginning and ending ---------------------------------------------------------------------------------------- */

static void destroy(yk_exchange *x)
{
  yk_exchanges *all = &x->server->exchanges;
  *(x->prev ? &x->prev->next : &all->first) = x->next;
  *(x->next ? &x->next->prev : &all->last) = x->prev;
  all->n--;
  yk_generation_free(x->generation);
  yk_strbuf_free(&x->body);
  yk_bodies_give_back(x);
  yk_strbuf_free(&x->reply.body);
  yk_strbuf_free(&x->late.body);
  free(x);
}

/* Called when libmicrohttpd is done with the request. If a worker or the list of ready nodes still has the exchange,
 * they call release again. */
static void release(yk_exchange *x)
{
  if (x->state == YK_PREPARING) return;
  yk_generation_cancel(x);
  if (!yk_ready_is_listed(&x->server->ready, &x->news)) destroy(x);
}

static void take_news(yk_ready_node *node)
{
  yk_exchange *x = (yk_exchange *)((char *)node - offsetof(yk_exchange, news));
  if (!x->mhd)
    release(x);
  else if (x->state == YK_RUNNING)
    yk_generation_pump(x);
}

/* The late reply becomes the reply; the client may have got it already. */
static void make_late(yk_exchange *x)
{
  yk_generation_cancel(x);
  yk_strbuf_free(&x->reply.body);
  x->reply = x->late;
  x->late = (yk_reply){0};
  x->state = YK_ANSWERED;
}

static void take_prepared(yk_ready_node *node)
{
  yk_exchange *x = (yk_exchange *)((char *)node - offsetof(yk_exchange, prepared));
  yk_generation_unhold(x);
  yk_bodies_give_back(x); /* the request has copies of all data of the body that is still needed */
  x->state = x->generation ? YK_RUNNING : YK_ANSWERED;
  if (atomic_load(&x->is_given_up)) make_late(x);
  if (!x->mhd || atomic_load(&x->is_gone)) {
    yk_generation_cancel(x);
    yk_exchange_resume(x);
    if (!x->mhd) release(x);
    return;
  }
  if (x->state == YK_RUNNING)
    yk_generation_begin(x);
  else
    yk_exchange_resume(x);
}

static yk_workers *workers_of(yk_exchange *x)
{
  return x->route->may_render ? &x->server->renderers : &x->server->workers;
}

/* Removes the exchange from the workers' queue, unless a worker has begun. */
static bool withdraw(yk_exchange *x)
{
  if (x->state != YK_PREPARING || !yk_workers_remove(workers_of(x), &x->job)) return false;
  yk_generation_unhold(x);
  yk_strbuf_free(&x->body);
  yk_bodies_give_back(x);
  x->state = YK_ANSWERED;
  return true;
}

void yk_http_give_up(yk_exchange *x, const yk_openai_error *error)
{
  if (!x->mhd) return; /* the client has left */
  if (withdraw(x)) {
    yk_reply_error(&x->reply, error);
  } else if (x->state == YK_PREPARING && !atomic_load(&x->is_given_up)) {
    yk_reply_error(&x->late, error);
    atomic_store(&x->is_given_up, true);
  } else {
    yk_generation_fail(x, error);
    return;
  }
  yk_exchange_resume(x);
}

static yk_exchange *create(yk_server *server, struct MHD_Connection *mhd, const char *url, const char *method)
{
  yk_connection *connection = yk_connection_of(mhd);
  yk_exchange *x = connection ? calloc(1, sizeof *x) : NULL;
  if (!x) return NULL;
  x->server = server;
  x->mhd = mhd;
  x->connection = connection;
  x->path = url;
  x->method = method;
  x->began_ns = yk_clock_now_ns();
  x->news.take = take_news;
  x->prepared.take = take_prepared;
  x->prev = server->exchanges.last;
  *(x->prev ? &x->prev->next : &server->exchanges.first) = x;
  server->exchanges.last = x;
  server->exchanges.n++;
  connection->exchange = x;
  return x;
}

void yk_http_completed(void *user, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
  (void)mhd;
  yk_server *server = user;
  yk_exchange *x = *context;
  *context = NULL;
  if (!x) return;
  if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK) atomic_store(&x->is_gone, true);
  yk_request_log_end(x, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
  if (!x->place || !x->place->is_probe)
    yk_http_metrics_add(&server->http_metrics, yk_route_number(x->place), x->method, yk_exchange_reply(x)->http_status,
                        yk_clock_seconds_since(x->began_ns));
  yk_connection_next(x->connection);
  x->connection = NULL;
  x->mhd = NULL;
  x->path = x->method = NULL;
  withdraw(x);
  release(x);
}

void yk_http_note_refused(void *user, const yk_request_guard *guard)
{
  yk_server *server = user;
  const yk_route *place = yk_route_at(guard->path);
  const yk_reply *reply = &guard->refusal;
  if (!place || !place->is_probe)
    yk_http_metrics_add(&server->http_metrics, yk_route_number(place), guard->method, reply->http_status, 0);
  yk_log_write(server->log, YK_LOG_INFO, "refused %.10s %s with %d: %s", guard->method,
               place ? yk_route_handler(yk_route_number(place)) : "(no route)", reply->http_status, reply->why);
}

/* ---- Receiving --------------------------------------------------------------------------------------------------- */

/* A header of the request, or NULL. */
static const char *header_of(const yk_exchange *x, const char *name)
{
  return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

/* Whether the media type of a header's value is application/json, with any parameters. */
static bool is_json(const char *content_type)
{
  size_t length = strlen(yk_content_json);
  if (!content_type || strncasecmp(content_type, yk_content_json, length) != 0) return false;
  return strchr("; \t", content_type[length]) != NULL; /* or the end of the text */
}

static void check_body_headers(yk_exchange *x)
{
  const char *type = header_of(x, MHD_HTTP_HEADER_CONTENT_TYPE);
  const char *encoding = header_of(x, MHD_HTTP_HEADER_CONTENT_ENCODING);
  const char *length = header_of(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
  long long limit = (long long)x->server->options.max_body_bytes;
  if (!is_json(type))
    yk_reply_refuse(&x->reply, 415, NULL, "Content-Type: expected application/json, found %.60s",
                    type ? type : "nothing");
  else if (encoding && strcasecmp(encoding, "identity") != 0)
    yk_reply_refuse(&x->reply, 415, NULL, "Content-Encoding: expected none, found %.60s", encoding);
  else if (length && strtoll(length, NULL, 10) > limit)
    yk_reply_refuse(&x->reply, 413, NULL, "expected a body of at most %lld bytes, found %.20s", limit, length);
}

/* A page of another origin sends a preflight, or another client sends OPTIONS. */
static void answer_options(yk_exchange *x)
{
  const char *origin = header_of(x, MHD_HTTP_HEADER_ORIGIN);
  x->is_preflight = x->server->options.n_origins > 0;
  if (x->is_preflight)
    x->reply.http_status = MHD_HTTP_NO_CONTENT;
  else if (origin && header_of(x, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD))
    yk_reply_refuse(&x->reply, 405, NULL,
                    "pages of %.100s may not call this server, unless it is started with --cors-origin and that origin",
                    origin);
  else
    yk_reply_refuse(&x->reply, 405, NULL, "OPTIONS is not allowed here, but %s", x->reply.allow);
}

/* A preflight without --cors-origin has a separate answer, so the origin is not checked. */
static void check_pages(yk_exchange *x)
{
  const yk_server_options *options = &x->server->options;
  yk_access_headers headers = {header_of(x, MHD_HTTP_HEADER_HOST), header_of(x, MHD_HTTP_HEADER_ORIGIN)};
  if (strcmp(x->method, MHD_HTTP_METHOD_OPTIONS) == 0 && options->n_origins == 0) headers.origin = NULL;
  yk_access_check(options, x->server->is_local, &headers, &x->reply);
}

static bool has_key(yk_exchange *x)
{
  const yk_key_headers headers = {header_of(x, MHD_HTTP_HEADER_AUTHORIZATION), header_of(x, "x-api-key")};
  return yk_access_has_key(&x->server->options, &headers, &x->api_key);
}

/* Anthropic's clients send their version with every request, and call more paths below those of the messages than there
 * are here. */
static const yk_protocol *protocol_of(const yk_exchange *x)
{
  static const char below_messages[] = "/v1/messages/";
  if (x->place && x->place->protocol) return x->place->protocol;
  bool is_anthropics = strncmp(x->path, below_messages, strlen(below_messages)) == 0;
  return is_anthropics || header_of(x, "anthropic-version") ? &yk_protocol_messages : NULL;
}

/* Refuses requests by their headers. The body is then read and dropped, since a client may read the answer only after
 * it has sent the whole body. */
static void check_headers(yk_exchange *x)
{
  const yk_server_options *options = &x->server->options;
  x->place = yk_route_at(x->path);
  x->protocol = protocol_of(x);
  if (x->protocol) x->reply.error_form = x->late.error_form = x->protocol->append_error;
  check_pages(x);
  if (x->reply.http_status) return;
  if (x->place && yk_route_takes(x->place, x->method)) x->route = x->place;
  x->reply.allow = x->place && !x->route ? yk_route_methods(x->place) : NULL;
  if (strcmp(x->method, MHD_HTTP_METHOD_OPTIONS) == 0 && (options->n_origins || x->place))
    answer_options(x);
  else if (!x->place)
    yk_reply_refuse(&x->reply, 404, NULL, "there is nothing at %.100s", x->path);
  else if (!x->route)
    yk_reply_refuse(&x->reply, 405, NULL, "%.20s is not allowed here, but %s", x->method, x->reply.allow);
  else if (!x->route->is_open && !has_key(x))
    yk_reply_refuse(&x->reply, 401, NULL,
                    "expected the header \"Authorization: Bearer KEY\" or \"x-api-key: KEY\" with this server's key");
  else if (x->route->methods & YK_METHOD_POST && x->route->prepare && !x->route->has_no_body)
    check_body_headers(x);
}

static void receive(yk_exchange *x, const char *bytes, size_t n_bytes)
{
  int64_t limit = x->server->options.max_body_bytes;
  if (x->reply.http_status) return;
  if ((int64_t)(x->body.length + n_bytes) > limit) { /* sent in chunks: no header gives its length */
    yk_strbuf_free(&x->body);
    yk_bodies_give_back(x);
    yk_reply_refuse(&x->reply, 413, NULL, "expected a body of at most %lld bytes, found more", (long long)limit);
    return;
  }
  if (!yk_bodies_take(x, n_bytes)) {
    yk_strbuf_free(&x->body);
    return;
  }
  yk_strbuf_append(&x->body, bytes, n_bytes);
  if (x->body.failed) yk_reply_refuse(&x->reply, 500, NULL, "out of memory");
}

static void prepare(yk_job *job)
{
  yk_exchange *x = (yk_exchange *)((char *)job - offsetof(yk_exchange, job));
  if (!atomic_load(&x->is_gone) && !atomic_load(&x->is_given_up)) x->route->prepare(x);
  yk_bodies_trim(x);
  yk_ready_push(&x->server->ready, &x->prepared);
}

/* Whether preparation may take longer than a small request may wait: a long text, or a constraint, which is compiled.
 * The names are searched, since the body is not parsed yet; a match within a text does no harm. */
static bool may_take_long(const yk_strbuf *body)
{
  static const char *const names[] = {"\"response_format\"", "\"structured_outputs\"", "\"guided_",
                                      "\"structural_tag\"",  "\"tool_choice\"",        "\"strict\"",
                                      "\"json_schema\""};
  if (body->length > YK_SMALL_BODY_BYTES) return true;
  for (size_t i = 0; body->length > 0 && i < sizeof names / sizeof *names; i++)
    if (memmem(body->data, body->length, names[i], strlen(names[i]))) return true;
  return false;
}

/* The client of a request, by its key, or else by its address. */
static uint64_t owner_of(const yk_exchange *x)
{
  struct sockaddr_storage address = {0};
  socklen_t n_bytes = sizeof address;
  uint64_t owner = x->api_key;
  if (x->server->options.n_api_keys > 0) return owner;
  if (getpeername(x->connection->fd, (struct sockaddr *)&address, &n_bytes) != 0) return owner;
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
  if (address.ss_family == AF_INET) return v4->sin_addr.s_addr;
  if (address.ss_family != AF_INET6) return owner;
  for (size_t i = 0; i < sizeof v6->sin6_addr; i++) owner = owner * 31 + v6->sin6_addr.s6_addr[i];
  return owner;
}

/* The whole request has arrived. */
static void arrived(yk_exchange *x)
{
  yk_server *server = x->server;
  yk_connection_arrived(x->connection);
  yk_request_log_begin(x);
  x->state = YK_ANSWERED;
  if (x->reply.http_status) return;
  if (x->route->answer) {
    x->route->answer(x);
  } else if (atomic_load(&server->is_draining)) {
    yk_server_explain(server, &x->reply);
  } else if (x->connection->has_left) {
    atomic_store(&x->is_gone, true);
  } else if (yk_generation_hold(x)) {
    x->state = YK_PREPARING;
    x->job.run = prepare;
    x->job.is_large = may_take_long(&x->body);
    x->job.owner = owner_of(x);
    if (yk_workers_add(workers_of(x), &x->job)) return;
    x->state = YK_ANSWERED;
    yk_generation_unhold(x);
    yk_reply_refuse(&x->reply, 429, NULL,
                    "too many requests: %d of this client with a constraint or a long text wait to be prepared",
                    YK_MAX_LARGE_WAITING);
    x->reply.retry_after_s = 1;
  }
}

/* ---- Answering --------------------------------------------------------------------------------------------------- */

static enum MHD_Result queue(yk_exchange *x, struct MHD_Response *response, int http_status)
{
  if (!response) return MHD_NO;
  yk_access_add_headers(&x->server->options, x->mhd, response, x->is_preflight);
  MHD_add_response_header(response, YK_REQUEST_ID_HEADER, x->request_id);
  if (x->protocol && x->protocol->id_header) MHD_add_response_header(response, x->protocol->id_header, x->request_id);
  if (atomic_load(&x->server->is_draining)) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  enum MHD_Result result = MHD_queue_response(x->mhd, (unsigned)http_status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result send_reply(yk_exchange *x, yk_reply *reply)
{
  struct MHD_Response *response;
  char retry_after[16];
  if (reply->static_body) {
    response = MHD_create_response_from_buffer(reply->static_bytes, (void *)(uintptr_t)reply->static_body,
                                               MHD_RESPMEM_PERSISTENT);
  } else {
    response = MHD_create_response_from_buffer(reply->body.length, reply->body.data, MHD_RESPMEM_MUST_FREE);
    if (response) reply->body = YK_STRBUF_INIT; /* the response owns the body from here on */
  }
  if (!response) return MHD_NO;
  if (reply->static_body) MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (reply->content_type) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
  if (reply->allow) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
  if (reply->http_status == 401) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  bool is_stopping = reply->http_status == 503 && atomic_load(&x->server->is_draining);
  if (reply->retry_after_s || is_stopping) {
    snprintf(retry_after, sizeof retry_after, "%d", is_stopping ? RETRY_ELSEWHERE_S : reply->retry_after_s);
    MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, retry_after);
  }
  return queue(x, response, reply->http_status);
}

static enum MHD_Result begin_stream(yk_exchange *x)
{
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, yk_generation_take, x, NULL);
  if (!response) return MHD_NO;
  x->generation->has_begun = true;
  x->reply.http_status = 200;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, yk_content_events);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
  MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* stops nginx from buffering events */
  return queue(x, response, x->reply.http_status);
}

enum MHD_Result yk_http_handle(void *user, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_bytes, void **context)
{
  (void)version;
  yk_exchange *x = *context;
  if (!x) {
    x = create(user, mhd, url, method);
    if (!x) return MHD_NO;
    *context = x;
    yk_request_id_choose(x, header_of(x, YK_REQUEST_ID_HEADER));
    check_headers(x);
    yk_connection_await(x->connection); /* the body, whose time limit starts now */
    bool is_due = header_of(x, MHD_HTTP_HEADER_EXPECT) != NULL;
    return is_due && x->reply.http_status ? send_reply(x, &x->reply) : MHD_YES;
  }
  if (*upload_bytes) {
    receive(x, upload, *upload_bytes);
    *upload_bytes = 0;
    return MHD_YES;
  }
  if (x->state == YK_RECEIVING) arrived(x);
  if (atomic_load(&x->is_gone)) return MHD_NO;
  if (x->state == YK_ANSWERED) return send_reply(x, &x->reply);
  if (x->state == YK_PREPARING && atomic_load(&x->is_given_up)) return send_reply(x, &x->late);
  if (x->state == YK_RUNNING && x->generation->request.stream && x->generation->out.length) return begin_stream(x);
  yk_exchange_suspend(x);
  return MHD_YES;
}
