/* batch_output.h - the output line of a batch for an input line.
 *
 * Plain lines: {"line", "id" or "custom_id", "text", "token_ids", "finish_reason"[, "logprobs"][, "prompt_logprobs"],
 * "usage", "input_hash"}; if a line has several outputs, "choices" is the list of them, prompt by prompt. For a line
 * that failed: {"line", "id", "error": {"code", "message"}, "input_hash"}.
 * OpenAI lines: {"line", "id", "custom_id", "response": {"status_code", "request_id", "body"}, "error", "input_hash"}
 * with a completion or chat.completion object as the body and a null error; for a line that failed the status is 400,
 * the body {"error": ...}, and "error" is {"code", "message"}.
 * "line" comes first; resuming uses "line" and "input_hash" (of the input line's bytes, the model and the options). */
#ifndef YK_CLI_BATCH_OUTPUT_H
#define YK_CLI_BATCH_OUTPUT_H

#include "base/strbuf.h"
#include "cli/batch/batch_line.h"
#include "cli/result.h"
#include "openai/answer.h"

/* yk_batch_output_result - append the output line of n_prompts * n_samples finished results (samples of a prompt are
 *   consecutive) for a plain line, with its newline, to out. has_text: the checkpoint has a tokenizer. Errors:
 *   YK_E_NOMEM. */
yk_status yk_batch_output_result(const yk_batch_ticket *ticket, bool has_text, const yk_result *results,
                                 size_t n_prompts, int32_t n_samples, yk_strbuf *out, yk_err *err);

/* yk_batch_output_answer - the same for an OpenAI line: a whole answer whose choices have all ended. */
yk_status yk_batch_output_answer(const yk_batch_ticket *ticket, yk_openai_answer *answer, yk_strbuf *out, yk_err *err);

/* yk_batch_output_error - the same for a line that failed; the message begins with the line's number. */
yk_status yk_batch_output_error(const yk_batch_line *line, const yk_err *failure, yk_strbuf *out, yk_err *err);

/* yk_batch_output_parse - read line number, hash and failure from a stored line.
 *   Errors: YK_E_FORMAT for a line that is not from a batch. */
yk_status yk_batch_output_parse(const char *text, size_t n_bytes, int64_t *number, uint32_t *hash, bool *failed,
                                yk_err *err);

/* yk_batch_output_begins - whether text may be the beginning of a batch's line. */
bool yk_batch_output_begins(const char *text, size_t n_bytes);

#endif
