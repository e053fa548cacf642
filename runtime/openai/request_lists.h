/* request_lists.h - the fields of a request that are lists: prompts, stop strings, biases; and the seed. */
#ifndef YK_OPENAI_REQUEST_LISTS_H
#define YK_OPENAI_REQUEST_LISTS_H

#include "openai/request.h"

/* One prompt, or a list of prompts: of strings, or of arrays of ids. */
yk_status yk_request_read_prompts(yk_openai_request *request, yk_json value, yk_err *err);

/* A string or an array of strings. */
yk_status yk_request_read_stop(yk_openai_request *request, yk_json value, yk_err *err);

/* An array of texts, which yk_request_encode_bad_words looks up in the body. */
yk_status yk_request_read_bad_words(yk_openai_request *request, yk_json value, yk_err *err);

/* yk_request_encode_bad_words - the ids of each, as in vLLM: of the word as it stands at the beginning of a text, and
 *   behind a space where that is as many other tokens. */
yk_status yk_request_encode_bad_words(yk_openai_request *request, const yk_engine *engine, yk_err *err);

yk_status yk_request_read_stop_ids(yk_openai_request *request, yk_json value, yk_err *err);

yk_status yk_request_read_logprob_ids(yk_openai_request *request, yk_json value, yk_err *err);

/* {"50256": -100, ...} */
yk_status yk_request_read_biases(yk_openai_request *request, yk_json value, yk_err *err);

/* -2^63 to 2^64 - 1, where a negative one stands for 2^64 more, as PyTorch's generators take them; -1 stands for none,
 * as in vLLM. */
yk_status yk_request_read_seed(yk_openai_request *request, yk_json value, yk_err *err);

#endif
