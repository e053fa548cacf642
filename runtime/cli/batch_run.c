#include "cli/batch_run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/hash.h"

enum { LINES_PER_ROUND = 256, PAUSE_MIN_MS = 1, PAUSE_MAX_MS = 20 };

static const double sync_interval_s = 1.0;

struct yk_batch_item {
  yk_batch_item *next;
  yk_batch_ticket ticket; /* owned */
  size_t n_prompts, n_results, n_left;
  int32_t n_samples;
  yk_result results[]; /* [n_results] samples of a prompt side by side; request NULL once it has ended */
};

static void free_item(yk_batch_item *item)
{
  for (size_t i = 0; i < item->n_results; i++) yk_result_free(&item->results[i]);
  yk_batch_ticket_free(&item->ticket);
  free(item);
}

/* What is wrong with a line is written in its place; anything else ends the run. */
static bool is_of_line(yk_status status)
{
  return status == YK_E_INVAL || status == YK_E_FORMAT || status == YK_E_UNSUPPORTED || status == YK_E_CAPACITY;
}

/* A request may also fail alone, for logits that are not finite: then the engine still works. */
static bool is_of_request(const yk_batch_run *run, const yk_result *result)
{
  bool failed_alone = result->err.code == YK_E_DEVICE && yk_engine_check(run->engine, NULL) == YK_OK;
  return is_of_line(result->err.code) || failed_alone;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static yk_status write_line(yk_batch_run *run, yk_err *err)
{
  YK_TRY(yk_jsonl_write(&run->files->writer, run->out.data, run->out.length, err));
  run->progress.n_done++;
  return yk_jsonl_sync(&run->files->writer, sync_interval_s, err);
}

static yk_status write_error(yk_batch_run *run, const yk_batch_ticket *ticket, const yk_err *failure, yk_err *err)
{
  yk_strbuf_clear(&run->out);
  YK_TRY(yk_batch_output_error(ticket, failure, &run->out, err));
  run->progress.n_failed++;
  return write_line(run, err);
}

/* Texts of single tokens are in OpenAI's log-probabilities only. */
static yk_status need_tokenizer(yk_batch_run *run, const yk_batch_item *item, yk_err *err)
{
  bool wanted = run->form.has_text && item->ticket.form == YK_BATCH_OPENAI && item->results[0].logprobs;
  if (!wanted || run->tokenizer) return YK_OK;
  YK_TRY(yk_tokenizer_load(run->model_dir, &run->tokenizer, err));
  run->form.tokenizer = run->tokenizer;
  return YK_OK;
}

static yk_status write_result(yk_batch_run *run, const yk_batch_item *item, yk_err *err)
{
  for (size_t i = 0; i < item->n_results; i++) {
    const yk_result *result = &item->results[i];
    if (result->finish == YK_FINISH_ERROR && !is_of_request(run, result))
      return yk_err_set(err, result->err.code, "line %lld: %s", (long long)item->ticket.number, result->err.message);
    if (result->finish == YK_FINISH_ERROR) return write_error(run, &item->ticket, &result->err, err);
    run->progress.output_tokens += result->usage.output_tokens;
    if (i % (size_t)item->n_samples == 0) run->progress.prompt_tokens += result->usage.prompt_tokens;
  }
  YK_TRY(need_tokenizer(run, item, err));
  yk_strbuf_clear(&run->out);
  YK_TRY(yk_batch_output_result(&item->ticket, &run->form, item->results, item->n_prompts, item->n_samples, &run->out,
                                err));
  return write_line(run, err);
}

/* ---- Starting lines ---------------------------------------------------------------------------------------------- */

/* Submit the samples of one prompt. */
static yk_status submit_prompt(yk_batch_run *run, const yk_batch_line *line, yk_batch_item *item, size_t index,
                               yk_err *err)
{
  const yk_batch_prompt *prompt = &line->prompts[index];
  yk_request_options request = {.ids = prompt->ids, .n_ids = prompt->n_ids, .sampling = line->sampling};
  int32_t *ids = NULL;
  if (prompt->text) {
    YK_TRY(yk_engine_tokenize(run->engine, prompt->text, prompt->n_bytes, true, &ids, &request.n_ids, err));
    request.ids = ids;
  }
  if (!line->has_max_tokens) {
    int64_t left_tokens = run->max_model_tokens - (int64_t)request.n_ids;
    request.sampling.max_tokens = (int32_t)yk_min_i64(request.sampling.max_tokens, yk_max_i64(left_tokens, 1));
  }
  if (!request.sampling.has_seed) /* by the line: a resumed run draws what an uninterrupted one would */
    request.sampling.seed = yk_sampling_seed(run->seed, (uint64_t)line->ticket.number - 1, index);
  request.sampling.has_seed = true;
  yk_status status = YK_OK;
  for (int32_t i = 0; i < line->n_samples && status == YK_OK; i++) {
    yk_result *result = &item->results[item->n_results++];
    status = yk_result_init(result, line->sampling.n_logprobs >= 0, line->sampling.n_prompt_logprobs >= 0, err);
    request.sampling.sample_index = i;
    if (status == YK_OK) status = yk_engine_submit(run->engine, &request, &result->request, err);
  }
  free(ids);
  return status;
}

static size_t count_requests(const yk_batch_line *line)
{
  return line->n_prompts * (size_t)line->n_samples;
}

/* All of a line's requests, or none: one that is refused takes the others back. */
static yk_status submit_line(yk_batch_run *run, yk_batch_line *line, yk_err *err)
{
  size_t n_results = count_requests(line);
  yk_batch_item *item = calloc(1, sizeof *item + n_results * sizeof item->results[0]);
  if (!item) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu requests", n_results);
  yk_status status = YK_OK;
  for (size_t i = 0; i < line->n_prompts && status == YK_OK; i++) {
    status = submit_prompt(run, line, item, i, err);
    if (status != YK_OK && line->n_prompts > 1) yk_err_prefix(err, "prompt %zu", i);
  }
  if (status != YK_OK) {
    free_item(item);
    return status;
  }
  item->ticket = line->ticket;
  line->ticket = (yk_batch_ticket){0};
  item->n_prompts = line->n_prompts;
  item->n_samples = line->n_samples;
  item->n_left = n_results;
  *run->items_end = item;
  run->items_end = &item->next;
  run->n_in_flight += n_results;
  return YK_OK;
}

/* status and failure: how parsing went. Takes the line. */
static yk_status start_line(yk_batch_run *run, yk_batch_line *line, yk_status status, yk_err *failure, yk_err *err)
{
  if (status == YK_OK) status = submit_line(run, line, failure);
  if (status != YK_OK && is_of_line(status))
    status = write_error(run, &line->ticket, failure, err);
  else if (status != YK_OK)
    yk_err_set(err, status, "line %lld: %s", (long long)line->ticket.number, failure->message);
  yk_batch_line_free(line);
  return status;
}

static bool has_room(const yk_batch_run *run, size_t n_requests)
{
  return run->n_in_flight == 0 || run->n_in_flight + n_requests <= run->max_in_flight;
}

static yk_status take_line(yk_batch_run *run, const yk_jsonl_line *text, yk_err *err)
{
  yk_err failure = YK_ERR_INIT;
  yk_batch_line line;
  uint32_t hash = yk_hash(run->files->hash_start, text->text, text->n_bytes);
  yk_status status = yk_batch_line_parse(text->text, text->n_bytes, text->number, hash, &run->defaults, run->sampling,
                                         &line, &failure);
  if (text->too_long) {
    yk_err_clear(&failure);
    status =
        yk_err_set(&failure, YK_E_INVAL, "expected at most %zu bytes in a line", run->files->reader.max_line_bytes);
  }
  if (status == YK_OK && !has_room(run, count_requests(&line))) {
    run->waiting = line;
    run->has_waiting = true;
    return YK_OK;
  }
  return start_line(run, &line, status, &failure, err);
}

/* Start lines while there is room; wait at most timeout_ms for the first. *started: whether any was. */
static yk_status start_lines(yk_batch_run *run, int timeout_ms, bool *started, yk_err *err)
{
  if (run->has_waiting && has_room(run, count_requests(&run->waiting))) {
    yk_err failure = YK_ERR_INIT;
    run->has_waiting = false;
    YK_TRY(start_line(run, &run->waiting, YK_OK, &failure, err));
    *started = true;
  }
  for (int i = 0; i < LINES_PER_ROUND && !run->input_ended && !run->has_waiting && has_room(run, 1); i++) {
    yk_jsonl_event event;
    yk_jsonl_line line;
    YK_TRY(yk_jsonl_read(&run->files->reader, i == 0 && !*started ? timeout_ms : 0, &event, &line, err));
    run->input_ended = event == YK_JSONL_END;
    if (event != YK_JSONL_LINE) return YK_OK;
    *started = true;
    bool skip = yk_jsonl_is_blank(line.text, line.n_bytes) || yk_batch_files_is_done(run->files, line.number);
    if (!skip) YK_TRY(take_line(run, &line, err));
  }
  return YK_OK;
}

/* ---- Finishing lines --------------------------------------------------------------------------------------------- */

static yk_status look_at_item(yk_batch_item *item, yk_err *err)
{
  for (size_t i = 0; i < item->n_results; i++) {
    yk_result *result = &item->results[i];
    bool ended = false;
    if (result->request) YK_TRY(yk_result_read(result, &ended, err));
    if (!ended) continue;
    yk_request_free(result->request);
    result->request = NULL;
    item->n_left--;
  }
  return YK_OK;
}

/* Read what has come for every request and write the lines that are complete. *finished: whether any was. */
static yk_status finish_lines(yk_batch_run *run, bool *finished, yk_err *err)
{
  for (yk_batch_item **link = &run->items; *link;) {
    yk_batch_item *item = *link;
    YK_TRY(look_at_item(item, err));
    if (item->n_left > 0) {
      link = &item->next;
      continue;
    }
    YK_TRY(write_result(run, item, err));
    *link = item->next;
    if (run->items_end == &item->next) run->items_end = link;
    run->n_in_flight -= item->n_results;
    free_item(item);
    *finished = true;
  }
  return YK_OK;
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */

static void sleep_ms(int ms)
{
  nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static void prepare(yk_batch_run *run)
{
  yk_engine_info info;
  yk_request_options request;
  yk_engine_get_info(run->engine, &info);
  yk_request_options_init(run->engine, &request);
  yk_sampling_options_apply(run->sampling, info.default_max_tokens, INT32_MAX, &request.sampling);
  run->defaults = request.sampling;
  run->max_model_tokens = info.max_model_tokens;
  if (run->max_in_flight == 0) run->max_in_flight = 2 * (size_t)info.max_seqs;
  run->form = (yk_batch_form_options){
      .model = run->model_dir, .has_text = info.has_tokenizer, .created_s = (int64_t)time(NULL)};
  run->items_end = &run->items;
}

yk_status yk_batch_run_lines(yk_batch_run *run, yk_err *err)
{
  int pause_ms = 0;
  prepare(run);
  while (!yk_interrupt_caught(run->interrupt)) {
    bool can_start = !run->input_ended && !run->has_waiting && has_room(run, 1), active = false;
    if (!can_start && pause_ms > 0) sleep_ms(pause_ms);
    YK_TRY(start_lines(run, pause_ms, &active, err));
    YK_TRY(finish_lines(run, &active, err));
    YK_TRY(yk_jsonl_sync(&run->files->writer, sync_interval_s, err));
    if (run->input_ended && !run->has_waiting && !run->items) return yk_jsonl_sync(&run->files->writer, 0, err);
    yk_batch_progress_draw(&run->progress);
    pause_ms = active ? PAUSE_MIN_MS : (int)yk_min_i64(2 * (int64_t)pause_ms + PAUSE_MIN_MS, PAUSE_MAX_MS);
  }
  bool finished;
  YK_TRY(finish_lines(run, &finished, err));
  return yk_jsonl_sync(&run->files->writer, 0, err);
}

void yk_batch_run_free(yk_batch_run *run)
{
  while (run->items) {
    yk_batch_item *item = run->items;
    run->items = item->next;
    free_item(item);
  }
  if (run->has_waiting) yk_batch_line_free(&run->waiting);
  yk_tokenizer_free(run->tokenizer);
  yk_strbuf_free(&run->out);
}
