// The end of what complex_begin.h began.
#pragma pop_macro("NUM")
#undef num
