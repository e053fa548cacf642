/* yoke.h - runs quantised language models split over several devices. Programs include this header.
 *
 * An engine holds one model on N ranks (one worker thread and one device each) and serves many requests at once. Any
 * thread may call any function of these headers on any object, except that a request or an engine must not be used
 * during or after the call that frees it. Functions that fail return a yk_status and fill the caller's yk_err (which
 * may be NULL); the object that they create is then NULL. Every number, enum and length is checked before the memory
 * that it describes is read, and an array may be NULL only if its length is 0: YK_E_INVAL names the argument and its
 * legal range.
 *
 * A struct that a program allocates begins with struct_size, the size of the struct in the program's version of the
 * headers, so that a program runs with any later library of the same major version: fields that an older program lacks
 * have their defaults, and a field that the library lacks must be 0 (YK_E_UNSUPPORTED names the struct). The ..._init
 * functions and those that fill a struct set struct_size: each is an inline function over a function whose name ends in
 * _sized, which bindings of other languages call with the size of their own struct. Structs without a struct_size do
 * not change.
 *
 *   yoke/engine.h    a model on its ranks: options, state, counters, planned memory
 *   yoke/requests.h  prompts to be continued, tokens and log-probabilities; waiting for any; held sequences with logits
 *   yoke/adapters.h  low-rank adapters (LoRA), loaded by name
 *   yoke/text.h      text to token ids and back
 *   yoke/chat.h      conversations to prompts
 *   yoke/process_group.h  engines one after the other on the processes of one run
 *   yoke/mpi_parent.h processes of MPI that start the processes with ranks
 *   yoke/profile.h   time of a step by operation
 *   yoke/device.h    the devices on which ranks run
 *   yoke/process.h   prepares a process, first in main
 *   yoke/tools.h     libyoke_tools, a separate library: measuring machines, converting and quantising checkpoints
 *
 *   yk_process_init();
 *   yk_engine_options options;
 *   yk_engine_options_init(&options);
 *   options.model_dir = "Qwen3-8B-AWQ";
 *   options.n_ranks = 2;
 *   yk_engine *engine;
 *   if (yk_engine_create(&options, &engine, &err) != YK_OK) ...
 *   yk_request_options request_options;
 *   yk_request_options_init(engine, &request_options);
 *   request_options.text = "Once upon a time";
 *   yk_request *request;
 *   if (yk_engine_submit(engine, &request_options, &request, &err) != YK_OK) ...
 *   const yk_output *output;
 *   while (yk_request_next(request, -1, &output, &err) == YK_OK && output->finish == YK_FINISH_NONE)
 *     fwrite(output->text, 1, output->text_bytes, stdout);
 *   yk_request_free(request);
 *   yk_engine_destroy(engine);
 */
#ifndef YK_YOKE_H
#define YK_YOKE_H

#include "yoke/adapters.h"
#include "yoke/chat.h"
#include "yoke/device.h"
#include "yoke/engine.h"
#include "yoke/mpi_parent.h"
#include "yoke/process.h"
#include "yoke/process_group.h"
#include "yoke/profile.h"
#include "yoke/requests.h"
#include "yoke/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_version - "0.2.0". */
const char *yk_version(void);

#ifdef __cplusplus
}
#endif
#endif
