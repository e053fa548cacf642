#include "bench/requests.h"

#include <stdlib.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/status.h"

/* Streams of random numbers for a run's prompts: one for the shared prefix, and one for each request. Lengths and
 * arrivals draw from the load's own seed, independent of the run. */
enum { DRAW_SHARED = 16, DRAW_PROMPT = 17 };

yk_status yk_bench_requests_create(yk_bench_requests *all, yk_engine *engine, const yk_bench_load *load, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  *all = (yk_bench_requests){
      .engine = engine, .load = load, .vocab_size = info.vocab_size, .n = yk_bench_load_requests(load)};
  all->list = calloc((size_t)all->n, sizeof *all->list);
  all->records = calloc((size_t)all->n, sizeof *all->records);
  if (!all->list || !all->records) return yk_err_set(err, YK_E_NOMEM, "no memory for %d requests", all->n);
  return yk_waiter_create(&all->waiter, err);
}

void yk_bench_requests_free(yk_bench_requests *all)
{
  for (int32_t i = 0; all->list && i < all->n; i++) {
    yk_request_free(all->list[i].request);
    free(all->list[i].ids);
  }
  for (int32_t i = 0; all->records && i < all->n; i++) free(all->records[i].times_ns);
  free(all->list);
  free(all->records);
  yk_waiter_free(all->waiter);
}

yk_status yk_bench_requests_prepare(yk_bench_requests *all, int32_t i, yk_err *err)
{
  yk_bench_request *r = &all->list[i];
  yk_bench_record *record = &all->records[i];
  const yk_bench_load *load = all->load;
  if (r->ids) return YK_OK;
  yk_bench_load_lengths(load, i, &record->n_input, &r->n_output);
  r->ids = malloc((size_t)record->n_input * sizeof *r->ids);
  record->times_ns = malloc((size_t)r->n_output * sizeof *record->times_ns);
  if (!r->ids || !record->times_ns)
    return yk_err_set(err, YK_E_NOMEM, "no memory for a request of %d and %d tokens", record->n_input, r->n_output);
  uint64_t seed = load->seed ^ (uint64_t)((uint32_t)load->run + 1) << 32;
  for (int32_t k = 0; k < record->n_input; k++) {
    uint32_t stream = k < load->shared_prefix ? DRAW_SHARED : DRAW_PROMPT + (uint32_t)i;
    r->ids[k] = (int32_t)((double)yk_rng_uniform(seed, stream, (uint32_t)k) * all->vocab_size);
  }
  return YK_OK;
}

yk_status yk_bench_requests_submit(yk_bench_requests *all, int32_t i, int64_t sent_ns, yk_err *err)
{
  yk_bench_request *r = &all->list[i];
  yk_request_options options;
  yk_request_options_init(all->engine, &options);
  options.ids = r->ids;
  options.n_ids = (size_t)all->records[i].n_input;
  if (all->load->n_adapters > 0) options.adapter = all->load->adapters[(size_t)i % all->load->n_adapters].name;
  options.sampling.temperature = all->load->temperature;
  options.sampling.top_p = all->load->top_p;
  options.sampling.top_k = all->load->top_k;
  options.sampling.min_p = 0;
  options.sampling.repetition_penalty = 1;
  options.sampling.ignore_eos = true;
  options.sampling.max_tokens = r->n_output;
  options.waiter = all->waiter;
  options.user = r;
  all->records[i].sent_ns = sent_ns;
  YK_TRY(yk_engine_submit(all->engine, &options, &r->request, err));
  free(r->ids);
  r->ids = NULL;
  all->n_running++;
  return YK_OK;
}

static void take_end(yk_bench_requests *all, yk_bench_request *r)
{
  yk_bench_record *record = &all->records[r - all->list];
  yk_request_usage usage;
  yk_request_get_usage(r->request, &usage);
  yk_request_free(r->request);
  r->request = NULL;
  record->n_reused = usage.reused_tokens;
  record->running_s = usage.ttft_s - usage.queue_s + usage.decode_s;
  record->is_done = true;
  all->n_running--;
  all->n_done++;
}

/* Reads all available output of a request. */
static yk_status read_request(yk_bench_requests *all, yk_bench_request *r, yk_err *err)
{
  yk_bench_record *record = &all->records[r - all->list];
  yk_err failure = YK_ERR_INIT;
  while (r->request) {
    const yk_output *output;
    yk_status status = yk_request_next(r->request, 0, &output, &failure);
    if (status == YK_E_AGAIN) return YK_OK;
    if (status != YK_OK) return yk_err_set(err, status, "request %d: %s", (int)(r - all->list), failure.message);
    if (output->has_token && record->n_tokens < r->n_output) record->times_ns[record->n_tokens++] = output->time_ns;
    if (output->finish != YK_FINISH_NONE) take_end(all, r);
  }
  return YK_OK;
}

/* The other tokens of a step arrive within this time. Tokens carry the engine's own times, so reading them a little
 * later changes no figure, while a thread that reads each token at once costs the engine a wake-up for each. */
static const int64_t gather_ns = 200000;

static void gather(int64_t deadline_ns)
{
  int64_t left_ns = yk_min_i64(deadline_ns - yk_clock_now_ns(), gather_ns);
  if (left_ns > 0) nanosleep(&(struct timespec){0, (long)left_ns}, NULL);
}

yk_status yk_bench_requests_read(yk_bench_requests *all, int64_t deadline_ns, int32_t *n_ended, yk_err *err)
{
  int32_t n_done = all->n_done;
  void *request;
  double wait_s = (double)yk_max_i64(deadline_ns - yk_clock_now_ns(), 0) * 1e-9;
  yk_status status = yk_waiter_wait(all->waiter, wait_s, NULL, &request, err);
  if (status == YK_OK) gather(deadline_ns);
  while (status == YK_OK) {
    YK_TRY(read_request(all, request, err));
    status = yk_waiter_wait(all->waiter, 0, NULL, &request, err);
  }
  *n_ended = all->n_done - n_done;
  return status == YK_E_AGAIN ? YK_OK : status;
}
