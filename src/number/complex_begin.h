// From here to complex_end.h num and NUM are those of the complex program, in a program of doubles that hands complex numbers
// to it (complex step). Headers *_number.h, which have no include guard, are included a second time between the two, so that a
// struct or a signature is written once for both. No guard here either.
#pragma push_macro("NUM")
#undef NUM
#define NUM(name) name##_c
#define num       _Complex double
