/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What cppcheck must know of macros in headers that it does not read. */
#define LIBBPF_OPTS(type, name, ...) struct type name = { __VA_ARGS__ }
#define json_array_foreach(array, index, value) \
	for (index = 0; index < json_array_size(array) && (value = json_array_get(array, index)); index++)
#define json_object_foreach(object, key, value) \
	for (key = json_first(object, &value); key; key = json_next(object, key, &value))
#define bpf_object__for_each_map(pos, obj) for ((pos) = map_next(obj, NULL); (pos); (pos) = map_next(obj, pos))
#define bpf_object__for_each_program(pos, obj) for ((pos) = prog_next(obj, NULL); (pos); (pos) = prog_next(obj, pos))
#define LG_VERSION "0"
