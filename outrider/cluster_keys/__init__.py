"""The keys that the services of one cluster know each other by: `outrider keys --cluster`."""
