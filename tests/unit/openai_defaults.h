/* openai_defaults.h - defaults of requests for tests without an engine. */
#ifndef TESTS_UNIT_OPENAI_DEFAULTS_H
#define TESTS_UNIT_OPENAI_DEFAULTS_H

#include "openai/request.h"

/* openai_defaults - temperature 1, max_tokens 16, one sample, streams, tool calls of this format. */
static inline yk_openai_defaults openai_defaults(yk_tool_format tools)
{
  return (yk_openai_defaults){.sampling = {.temperature = 1,
                                           .top_p = 1,
                                           .repetition_penalty = 1,
                                           .max_tokens = 16,
                                           .n_logprobs = -1,
                                           .n_prompt_logprobs = -1,
                                           .max_reasoning_tokens = -1},
                              .n_samples = 1,
                              .can_stream = true,
                              .style = {.tools = tools}};
}

#endif
