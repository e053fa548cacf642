#include "cli/batch/batch_run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/hash.h"
#include "openai/protocol.h"

/* WAIT_MS: interval of checking signals and drawing the bar */
enum { LINES_PER_ROUND = 256, GATHER_MS = 1, WAIT_MS = 20 };

static const double sync_interval_s = 1.0;

struct yk_batch_item {
  yk_batch_item *next, **link; /* link: the pointer to the item in the list of items in flight */
  yk_batch_line line;          /* owned */
  /* owned, for an OpenAI line: collects the output of its requests; NULL: the results collect it */
  yk_openai_answer *answer;
  size_t n_results, n_left;
  yk_result results[]; /* [n_results] samples of a prompt are consecutive; request is NULL after its end */
};

static void free_item(yk_batch_item *item)
{
  for (size_t i = 0; i < item->n_results; i++) yk_result_free(&item->results[i]);
  yk_openai_answer_free(item->answer);
  yk_batch_line_free(&item->line);
  free(item);
}

/* Whether an error belongs to a line and is written in place of its result; other errors end the run. */
static bool is_of_line(yk_status status)
{
  return status == YK_E_INVAL || status == YK_E_FORMAT || status == YK_E_UNSUPPORTED || status == YK_E_CAPACITY;
}

/* Whether a request has failed alone, for logits that are not finite: then the engine still works. */
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

static yk_status write_error(yk_batch_run *run, const yk_batch_line *line, const yk_err *failure, yk_err *err)
{
  yk_strbuf_clear(&run->out);
  YK_TRY(yk_batch_output_error(line, failure, &run->out, err));
  run->progress.n_failed++;
  return write_line(run, err);
}

static yk_status write_result(yk_batch_run *run, const yk_batch_item *item, yk_err *err)
{
  const yk_batch_ticket *ticket = &item->line.ticket;
  const yk_openai_request *request = &item->line.request;
  for (size_t i = 0; i < item->n_results; i++) {
    const yk_result *result = &item->results[i];
    if (result->finish == YK_FINISH_ERROR && !is_of_request(run, result))
      return yk_err_set(err, result->err.code, "line %lld: %s", (long long)ticket->number, result->err.message);
    if (result->finish == YK_FINISH_ERROR) return write_error(run, &item->line, &result->err, err);
    run->progress.output_tokens += result->usage.output_tokens;
    if (i % (size_t)request->n_samples == 0) run->progress.prompt_tokens += result->usage.prompt_tokens;
  }
  yk_strbuf_clear(&run->out);
  if (item->answer)
    YK_TRY(yk_batch_output_answer(ticket, item->answer, &run->out, err));
  else
    YK_TRY(yk_batch_output_result(ticket, run->has_text, item->results, request->n_prompts, request->n_samples,
                                  &run->out, err));
  return write_line(run, err);
}

/* ---- Starting lines ---------------------------------------------------------------------------------------------- */

static yk_status create_answer(yk_batch_run *run, yk_batch_item *item, yk_err *err)
{
  char id[40];
  const yk_openai_request *request = &item->line.request;
  snprintf(id, sizeof id, "%s%lld", request->protocol->id_prefix, (long long)item->line.ticket.number);
  yk_openai_answer_options options = {.id = id,
                                      .model = request->model ? request->model : run->model_dir,
                                      .created_s = run->created_s,
                                      .texts = run->texts,
                                      .has_text = run->has_text};
  return yk_openai_answer_create(request, &options, &item->answer, err);
}

/* Converts conversations and texts to ids. */
static yk_status find_ids(yk_batch_run *run, yk_openai_request *request, yk_err *err)
{
  yk_status status = request->form == YK_FORM_CHAT ? yk_batch_chat_encode(run->chat, request, err) : YK_OK;
  yk_openai_request_place(request, err);
  if (status != YK_OK) return status;
  return yk_openai_request_tokenize(request, run->engine, err);
}

static yk_status submit_choice(yk_batch_run *run, yk_batch_item *item, size_t choice, yk_err *err)
{
  const yk_openai_request *request = &item->line.request;
  size_t prompt = choice / (size_t)request->n_samples;
  yk_request_options options;
  yk_openai_request_options_of(request, choice, run->max_model_tokens, &options);
  if (!options.sampling.has_seed) /* depends on the line, so that a resumed run draws the same samples */
    options.sampling.seed = yk_sampling_seed(run->seed, (uint64_t)item->line.ticket.number - 1, prompt);
  options.sampling.has_seed = true;
  yk_result *result = &item->results[item->n_results++];
  if (yk_adapter_options_has(run->adapters, request->model)) options.adapter = request->model;
  options.waiter = run->waiter;
  options.user = item;
  bool keeps = !item->answer;
  yk_status status = yk_result_init(result, keeps && options.sampling.n_logprobs >= 0,
                                    keeps && options.sampling.n_prompt_logprobs >= 0, err);
  if (status == YK_OK) status = yk_engine_submit(run->engine, &options, &result->request, err);
  yk_openai_request_name_prompt(request, prompt, err);
  return status;
}

/* Submits all of a line's requests, or none: if one is refused, the others are freed. */
static yk_status submit_all(yk_batch_run *run, yk_batch_item *item, size_t n_choices, yk_err *err)
{
  YK_TRY(find_ids(run, &item->line.request, err));
  YK_TRY(yk_openai_request_truncate(&item->line.request, run->max_model_tokens, err));
  if (item->line.ticket.form == YK_BATCH_OPENAI) YK_TRY(create_answer(run, item, err));
  for (size_t i = 0; i < n_choices; i++) YK_TRY(submit_choice(run, item, i, err));
  return yk_openai_request_drop_body(&item->line.request, err);
}

/* Takes ownership of the line on success. */
static yk_status submit_line(yk_batch_run *run, yk_batch_line *line, yk_err *err)
{
  size_t n_choices = yk_openai_request_choices(&line->request);
  yk_batch_item *item = calloc(1, sizeof *item + n_choices * sizeof item->results[0]);
  if (!item) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu requests", n_choices);
  item->line = *line;
  yk_status status = submit_all(run, item, n_choices, err);
  if (status != YK_OK) {
    *line = item->line;
    item->line = (yk_batch_line){0};
    free_item(item);
    return status;
  }
  *line = (yk_batch_line){0};
  item->n_left = n_choices;
  item->link = run->items_end;
  *run->items_end = item;
  run->items_end = &item->next;
  run->n_in_flight += n_choices;
  return YK_OK;
}

/* status and failure: the result of parsing. Takes ownership of the line. */
static yk_status start_line(yk_batch_run *run, yk_batch_line *line, yk_status status, yk_err *failure, yk_err *err)
{
  if (status == YK_OK) status = submit_line(run, line, failure);
  if (status != YK_OK && is_of_line(status))
    status = write_error(run, line, failure, err);
  else if (status != YK_OK)
    yk_err_set(err, status, "line %lld: %s", (long long)line->ticket.number, failure->message);
  yk_batch_line_free(line);
  return status;
}

static bool may_start(const yk_batch_run *run, size_t n_requests)
{
  return run->n_in_flight == 0 || run->n_in_flight + n_requests <= run->max_in_flight;
}

static yk_status take_line(yk_batch_run *run, const yk_jsonl_line *text, yk_err *err)
{
  yk_err failure = YK_ERR_INIT;
  yk_batch_line line;
  uint32_t hash = yk_hash(run->files->hash_start, text->text, text->n_bytes);
  yk_status status =
      yk_batch_line_parse(text->text, text->n_bytes, text->number, hash, &run->defaults, &line, &failure);
  if (text->too_long) {
    yk_err_clear(&failure);
    status =
        yk_err_set(&failure, YK_E_INVAL, "expected at most %zu bytes in a line", run->files->reader.max_line_bytes);
  }
  if (status == YK_OK && !may_start(run, yk_openai_request_choices(&line.request))) {
    run->waiting = line;
    run->has_waiting = true;
    return YK_OK;
  }
  return start_line(run, &line, status, &failure, err);
}

/* Starts available lines while there is capacity. *started: at least one line was read. */
static yk_status start_lines(yk_batch_run *run, bool *started, yk_err *err)
{
  if (run->has_waiting && may_start(run, yk_openai_request_choices(&run->waiting.request))) {
    yk_err failure = YK_ERR_INIT;
    run->has_waiting = false;
    YK_TRY(start_line(run, &run->waiting, YK_OK, &failure, err));
    *started = true;
  }
  for (int i = 0; i < LINES_PER_ROUND && !run->input_ended && !run->has_waiting && may_start(run, 1); i++) {
    yk_jsonl_event event;
    yk_jsonl_line line;
    YK_TRY(yk_jsonl_read(&run->files->reader, 0, &event, &line, err));
    run->input_ended = event == YK_JSONL_END;
    if (event != YK_JSONL_LINE) return YK_OK;
    *started = true;
    bool skip = yk_jsonl_is_blank(line.text, line.n_bytes) || yk_batch_files_skips(run->files, line.number);
    if (!skip) YK_TRY(take_line(run, &line, err));
  }
  return YK_OK;
}

/* ---- Finishing lines --------------------------------------------------------------------------------------------- */

/* As yk_result_read, for an answer that collects the output. */
static yk_status read_answer(yk_batch_item *item, size_t choice, bool *ended, yk_err *err)
{
  yk_result *result = &item->results[choice];
  yk_err failure = YK_ERR_INIT;
  yk_status status = yk_openai_answer_read(item->answer, choice, result->request, false, NULL, ended, &failure);
  if (*ended) yk_request_get_usage(result->request, &result->usage);
  if (status == YK_OK) return YK_OK;
  if (!*ended) return yk_err_set(err, status, "%s", failure.message);
  result->finish = YK_FINISH_ERROR;
  result->err = failure;
  return YK_OK;
}

static yk_status read_choice(yk_batch_item *item, size_t choice, yk_err *err)
{
  yk_result *result = &item->results[choice];
  bool ended = false;
  if (item->answer)
    YK_TRY(read_answer(item, choice, &ended, err));
  else
    YK_TRY(yk_result_read(result, &ended, err));
  if (!ended) return YK_OK;
  yk_request_free(result->request);
  result->request = NULL;
  item->n_left--;
  return YK_OK;
}

static void unlink_item(yk_batch_run *run, yk_batch_item *item)
{
  *item->link = item->next;
  if (item->next)
    item->next->link = item->link;
  else
    run->items_end = item->link;
}

static yk_status read_request(yk_batch_run *run, yk_batch_item *item, const yk_request *request, yk_err *err)
{
  size_t choice = 0;
  while (item->results[choice].request != request) choice++;
  YK_TRY(read_choice(item, choice, err));
  if (item->n_left > 0) return YK_OK;
  YK_TRY(write_result(run, item, err));
  unlink_item(run, item);
  run->n_in_flight -= item->n_results;
  free_item(item);
  return YK_OK;
}

/* Reads available output and writes the lines that are complete. *has_read: there was output. */
static yk_status finish_lines(yk_batch_run *run, bool *has_read, yk_err *err)
{
  yk_request *request;
  void *item;
  while (yk_waiter_wait(run->waiter, 0, &request, &item, err) == YK_OK) {
    YK_TRY(read_request(run, item, request, err));
    *has_read = true;
  }
  return YK_OK;
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */

/* Waits until there is output or, if a line could start, input; at most WAIT_MS. */
static void wait_for_news(const yk_batch_run *run)
{
  bool can_start = !run->input_ended && !run->has_waiting && may_start(run, 1);
  struct pollfd news[] = {{.fd = yk_waiter_fd(run->waiter), .events = POLLIN},
                          {.fd = can_start ? run->files->reader.fd : -1, .events = POLLIN}};
  poll(news, 2, WAIT_MS);
  if (news[0].revents) nanosleep(&(struct timespec){0, GATHER_MS * 1000000}, NULL);
}

static yk_status prepare(yk_batch_run *run, yk_err *err)
{
  yk_engine_info info;
  yk_request_options request;
  yk_engine_get_info(run->engine, &info);
  yk_request_options_init(run->engine, &request);
  yk_sampling_options_apply(run->sampling, info.default_max_tokens, INT32_MAX, &request.sampling);
  run->defaults = (yk_openai_defaults){.sampling = request.sampling,
                                       .n_samples = run->sampling->n_samples,
                                       .has_max_tokens = run->sampling->max_tokens_given,
                                       .style = run->style};
  run->max_model_tokens = info.max_model_tokens;
  run->has_text = info.has_tokenizer;
  run->created_s = (int64_t)time(NULL);
  if (run->max_in_flight == 0) run->max_in_flight = 2 * (size_t)info.max_seqs;
  run->items_end = &run->items;
  YK_TRY(yk_waiter_create(&run->waiter, err));
  return yk_token_texts_create(run->engine, &run->texts, err);
}

yk_status yk_batch_run_lines(yk_batch_run *run, yk_err *err)
{
  bool active = false;
  YK_TRY(prepare(run, err));
  while (!yk_interrupt_caught(run->interrupt)) {
    active = false;
    YK_TRY(start_lines(run, &active, err));
    YK_TRY(finish_lines(run, &active, err));
    YK_TRY(yk_jsonl_sync(&run->files->writer, sync_interval_s, err));
    if (run->input_ended && !run->has_waiting && !run->items) return yk_jsonl_sync(&run->files->writer, 0, err);
    yk_batch_progress_draw(&run->progress);
    if (!active) wait_for_news(run);
  }
  YK_TRY(finish_lines(run, &active, err));
  return yk_jsonl_sync(&run->files->writer, 0, err);
}

void yk_batch_run_free(yk_batch_run *run)
{
  while (run->items) {
    yk_batch_item *item = run->items;
    run->items = item->next;
    free_item(item);
  }
  yk_waiter_free(run->waiter);
  if (run->has_waiting) yk_batch_line_free(&run->waiting);
  yk_token_texts_free(run->texts);
  yk_strbuf_free(&run->out);
}
