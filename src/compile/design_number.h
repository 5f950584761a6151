// The kernel in a number type: included once for each (number/complex_begin.h).

// A body of `count` parts, with their densities and the ten properties of the mesh of each (volume, center, tensor; of
// primitives not read): mass, center of mass in the body, tensor about it.
void NUM(pbDesign_Body)(const pbDesignPart *part, int count, const num *density, const num *mesh, num out[10]);
