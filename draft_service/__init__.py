"""The draft worker: guesses candidate trees and has them verified. Owns no truth; replaceable."""
