/* request_lists.h - the fields of a request that are lists: prompts, stop strings, biases; and the seed. */
#ifndef YK_OPENAI_REQUEST_LISTS_H
#define YK_OPENAI_REQUEST_LISTS_H

#include "openai/request.h"

/* One prompt, or a list of prompts: of strings, or of arrays of ids. */
yk_status yk_request_read_prompts(yk_openai_request *request, yk_json value, yk_err *err);

/* A string or an array of strings. */
yk_status yk_request_read_stop(yk_openai_request *request, yk_json value, yk_err *err);

yk_status yk_request_read_stop_ids(yk_openai_request *request, yk_json value, yk_err *err);

/* {"50256": -100, ...} */
yk_status yk_request_read_biases(yk_openai_request *request, yk_json value, yk_err *err);

/* -2^63 to 2^64 - 1, where a negative one stands for 2^64 more, as PyTorch's generators take them; -1 stands for none,
 * as in vLLM. */
yk_status yk_request_read_seed(yk_openai_request *request, yk_json value, yk_err *err);

#endif
